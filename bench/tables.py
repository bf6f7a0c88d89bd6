#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the tables of docs/ again, and writes them into their pages.

    ./run bench                          lists them, with what each takes and needs
    ./run bench select ddp-1gbit         measures these, one after another
    ./run bench --all                    all of them
    ./run bench --quick ddp-1gbit        small sizes: shows that it works, keeps nothing
    ./run bench --runs 3 ddp-100mbit     three runs instead of five, which the page says
    ./run bench --write                  measures nothing; writes all pages from their records

A table leaves a record, bench/results/NAME.json, with its commands, the commit and the machine, and a part
of a page between <!-- NAME --> and <!-- end -->. Measure on a machine that does nothing else: the load at the
start is in the record, and in the page where it was not idle.
"""

import argparse
import json
import pathlib
import sys
import time

import convergence_table
import exchange_tables
import limits_tables
import selection_tables
import simulator_table
import time_tables
import training_tables
from table import ROOT, RUNS, Bench, Missing, Table, caption, measured, put, record_path, write_record

TABLES = {one.name: one for module in (selection_tables, exchange_tables, training_tables, time_tables,
                                       limits_tables, simulator_table, convergence_table)
          for one in module.TABLES}


def show_list(results: pathlib.Path) -> None:
    width = max(map(len, TABLES)) + 2
    print(f"{'table':{width}}{'minutes':>7}  {'needs':30} {'record':10} question")
    for name, table in TABLES.items():
        path = record_path(name, results)
        record = json.loads(path.read_text())["commit"] if path.exists() else "-"
        print(f"{name:{width}}{table.minutes:7g}  {', '.join(table.needs) or '-':30} {record:10} {table.question}")
    print("\n./run bench TABLE... measures again; --quick tries one; --data DIR has the data sets. root: by sudo.")


def parts_of(table: Table, record: dict) -> dict[str, str]:
    """By mark; the first part says where all of them come from."""
    parts = table.parts(record["results"])
    first = next(iter(parts))
    parts[first] = f"{caption(table, record)}\n{parts[first]}"
    return {f"{table.name}: {part}" if part else table.name: text for part, text in parts.items()}


def changed_files(results: pathlib.Path, docs: pathlib.Path) -> dict[pathlib.Path, str]:
    """Pages and pictures that are not as the records have them, and how they should be."""
    files: dict[pathlib.Path, str] = {}
    for table in TABLES.values():
        page = docs / table.page
        if table.records is not None:
            parts = table.parts(table.records())
        elif (path := record_path(table.name, results)).exists():
            record = json.loads(path.read_text())
            parts = parts_of(table, record)
            for name, svg in table.pictures(record["results"]).items():
                files[docs / "pictures" / name] = svg
        else:
            continue
        for mark, text in parts.items():
            files[page] = put(page, files.get(page) or page.read_text(), mark, text)
    return {path: text for path, text in files.items() if not path.exists() or path.read_text() != text}


def write_pages(args) -> None:
    for path, text in changed_files(args.results, args.docs).items():
        path.write_text(text)
        print(f"bench: {path} is written.", file=sys.stderr)


def check_pages(args) -> int:
    changed = changed_files(args.results, args.docs)
    for path in changed:
        print(f"bench: {path} is not as its records have it: ./run bench --write", file=sys.stderr)
    return 1 if changed else 0


def measure(table: Table, args) -> None:
    bench = Bench(args.quick, args.data, args.topknot, args.runs)
    start = time.monotonic()
    record = measured(table, bench)
    print(f"bench: {table.name} took {(time.monotonic() - start) / 60:.1f} minutes.", file=sys.stderr)
    if table.records is not None:
        return
    print("\n".join(f"<!-- {mark} -->\n{text}" for mark, text in parts_of(table, record).items()))
    if not args.quick:
        write_record(record, args.results)


def measure_all(names: list[str], args) -> int:
    """Each whatever became of those before it, for an hour of measuring is not to be lost."""
    failed = []
    for name in names:
        try:
            measure(TABLES[name], args)
        except Missing as reason:
            failed.append(f"{name}: {reason}")
            print(f"bench: {failed[-1]}", file=sys.stderr)
            continue
        if not args.quick:
            write_pages(args)
    for text in failed:
        print(f"bench: not measured: {text}", file=sys.stderr)
    return 1 if failed else 0


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of runs; take 1 or more.")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE")
    parser.add_argument("--all", action="store_true", help="every table")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try a table; keeps nothing")
    parser.add_argument("--runs", type=count, default=RUNS, metavar="N", help="of what has a spread; %(default)s")
    parser.add_argument("--write", action="store_true", help="only write the pages from the records")
    parser.add_argument("--check", action="store_true", help="only say which pages are not as the records have them")
    parser.add_argument("--data", type=lambda text: pathlib.Path(text).resolve(), help="folder of the data sets")
    parser.add_argument("--topknot", type=pathlib.Path, default=ROOT / "build" / "release" / "topknot")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench" / "results", help="records")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs", help="pages")
    args = parser.parse_args()
    unknown = [name for name in args.tables if name not in TABLES]
    if unknown:
        parser.error(f"there is no table {unknown[0]}; there are {', '.join(TABLES)}. What `topknot bench` measures is "
                     "in build/release/topknot bench.")
    if args.check:
        return check_pages(args)
    if args.write:
        write_pages(args)
        return 0
    if not args.tables and not args.all:
        show_list(args.results)
        return 0
    return measure_all(list(TABLES) if args.all else args.tables, args)


if __name__ == "__main__":
    sys.exit(main())
