"""Read the reports of all test stages: every stage has run tests, every notebook has run, nothing was skipped but recorded data."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def main(folder: Path, names: list[str]) -> int:
    """Print what is wrong, then the sums of all stages on the last line; 1 if anything is wrong."""
    passed = failed = skipped = 0
    faults = []
    for name in names:
        report = folder / f"{name}.xml"
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
        bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
        left_out = [case for case in cases if case.find("skipped") is not None and case not in bad]
        good = [case for case in cases if case not in bad and case not in left_out]
        passed, failed, skipped = passed + len(good), failed + len(bad), skipped + len(left_out)
        print(f"{name}: {len(good)} passed, {len(bad)} failed, {len(left_out)} skipped")
        if not good:
            faults.append(f"{name}: no test passed")
        for case in left_out:
            reason = (case.find("skipped").get("message") or "").removeprefix("Skipped: ")
            if not reason.startswith("recorded data") or name == "browser":
                faults.append(f"{name}: {case.get('classname')}.{case.get('name')} was skipped: {reason}")
        if name == "readme":
            ran = " ".join(f"{case.get('classname')} {case.get('file')} {case.get('name')}" for case in good)
            missing = [path for path in sorted(Path("notebooks").glob("*.ipynb")) if not re.search(re.escape(path.stem), ran)]
            faults += [f"{path} ran no cell" for path in missing]
            faults += [] if list(Path("notebooks").glob("*.ipynb")) else ["there is no notebook"]
    print("\n".join(faults))
    print(f"crowdlab: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if faults or failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
