import importlib
import sys

PARTS = ("fidelity", "live", "streams", "peers", "startup", "pages", "ceiling")


def main(names: list[str]) -> None:
    for part in names or PARTS:
        if part not in PARTS:
            sys.exit(f"There is no benchmark {part!r}: there are {', '.join(PARTS)}.")
        print(f"\n{part}", flush=True)
        for figure in importlib.import_module(f"tests.bench.{part}").run():
            print(figure, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
