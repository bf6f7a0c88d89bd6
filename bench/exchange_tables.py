# SPDX-License-Identifier: Apache-2.0
"""Tables of the exchange alone: every collective on three networks, on other MPIs, as it grows, and what integrity
costs."""

import functools
import shutil
import statistics

from table import RANKS, RATES, ROOT, Bench, Missing, Table, line_seconds, markdown, spread

VGG16 = 14728266  # weights
COLLECTIVES = ["dense", "dense:via=native", "dense:values=bf16", "topka", "topkdsa", "ssar", "gtopk", "spardl",
               "oktopk", "exdyna", "micro", "deft", "cltk", "knot", "knot:values=bf16"]
STEPS = {"loopback": (20, 5), "1gbit": (8, 3), "100mbit": (3, 1)}  # timed, and before those


def name_of(row: dict) -> str:
    return row["collective"] + (f":{row['parameters']}" if row["parameters"] else "")


def rows_of(said: dict) -> dict[str, dict]:
    return {name_of(row): row for row in said["results"]}


# ---- on one network


def allreduce(network: str, bench: Bench) -> dict:
    n = 65536 if bench.quick else VGG16
    steps, before = (2, 1) if bench.quick else STEPS[network]
    alone = bench.json(bench.topknot, "bench", "select", "--n", n, "--compressor", "topk", "--json")
    with bench.network(network) as words:
        runs = [bench.json(*words, bench.topknot, "bench", "allreduce", "--n", n, "--density", 0.01,
                           "--steps", steps, "--warm-up", before, "--timeout", 300, "--json",
                           "--collective", *COLLECTIVES) for _ in range(bench.runs)]
    return {"network": network, "n": n, "stream_add_seconds": alone["stream_add_seconds"],
            "runs": [rows_of(run) for run in runs]}


def at_least(results: dict, row: dict) -> float:
    """Milliseconds: the line carries what is sent, and each rank reads its vector and writes the sum."""
    line = 0.0 if results["network"] == "loopback" else line_seconds(row["sent_bytes_max"], results["network"])
    return 1e3 * max(line, results.get("stream_add_seconds") or 0)


def milliseconds(rows: list[dict], key: str) -> str:
    values = [1e3 * row[key] for row in rows if row.get(key)]
    return f"{statistics.median(values):.1f}" if values else "-"


def allreduce_table(results: dict) -> dict[str, str]:
    runs = results["runs"]
    lines = []
    for name in runs[0]:
        rows = [run[name] for run in runs]
        known = rows[0].get("sent_bytes_max")
        lines.append([f"`{name}`", spread([1e3 * row["seconds"] for row in rows], 1),
                      spread([run["dense"]["seconds"] / run[name]["seconds"] for run in runs], 1),
                      f"{known / 1e6:.2f}" if known else "-", f"{at_least(results, rows[0]):.1f}" if known else "-",
                      milliseconds(rows, "select_seconds"), milliseconds(rows, "wait_seconds")])
    head = ["collective", "ms", "x faster than `dense`", "MB sent", "at least, ms", "selecting", "waiting"]
    return {"": f"n = {results['n']:,} (VGG-16), 1 %, {RANKS} ranks. `dense:via=native` is `MPI_Allreduce`.\n\n"
                + markdown(head, lines)}


# ---- other MPIs


MPIS = {
    "`ob1`": ("release", ["mpirun", "--mca", "pml", "ob1"]),
    "`ucx`": ("release", ["mpirun", "--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any",
                          "--mca", "pml_ucx_devices", "any"]),  # else it wants hardware
    "MPICH": ("mpich", ["mpirun.mpich"]),
}
ON_MPIS = ["dense", "topka", "gtopk", "oktopk", "knot"]


def mpis(bench: Bench) -> dict:
    n = 1 << (16 if bench.quick else 22)
    for preset, words in MPIS.values():
        if shutil.which(words[0]) is None or not (ROOT / "build" / preset / "topknot").exists():
            raise Missing(f"{words[0]} or build/{preset} is not here: ./run build {preset} builds it where there is "
                          "such an MPI.")
    runs = []
    for _ in range(bench.runs):
        runs.append({})
        for name, (preset, words) in MPIS.items():
            said = bench.json(*words, "-n", 2, ROOT / "build" / preset / "topknot", "bench", "allreduce",
                              "--n", n, "--steps", 3 if bench.quick else 20, "--json", "--collective", *ON_MPIS)
            runs[-1][name] = {one: row["seconds"] for one, row in rows_of(said).items()}
    return {"n": n, "runs": runs}


def mpis_table(results: dict) -> dict[str, str]:
    runs = results["runs"]
    rows = [[f"`{one}`", *(spread([1e3 * run[mpi][one] for run in runs], 1) for mpi in MPIS)] for one in ON_MPIS]
    rows.append(["`knot` against `dense`",
                 *(spread([run[mpi]["dense"] / run[mpi]["knot"] for run in runs], 1) for mpi in MPIS)])
    return {"": f"n = {results['n']:,}, 1 %, 2 ranks on shared memory, ms a step.\n\n"
                + markdown(["collective", *MPIS], rows)}


# ---- what it costs that no message is believed unseen


GUARDED = ["dense", "topka", "gtopk", "oktopk", "knot", "knot:values=bf16"]
GUARDS = ("header", "checksum", "checks", "hash")


def integrity(bench: Bench) -> dict:
    program = ROOT / "build" / "release" / "bench" / "integrity_mpi"
    if not program.exists():
        raise Missing(f"{program.relative_to(ROOT)} is not here: ./run build builds it where there is MPI.")
    n, steps = (65536, 2) if bench.quick else (VGG16, 6)
    with bench.network("1gbit") as words:
        said = [bench.json(*words, program, n, 0.01, steps, RATES["1gbit"] / 1e6, *GUARDED) for _ in range(bench.runs)]
    return {"n": n, "runs": [{row["collective"]: row for row in one["results"]} for one in said]}


def integrity_table(results: dict) -> dict[str, str]:
    rows = []
    for name in GUARDED:
        of = [run[name] for run in results["runs"]]
        share = [100 * sum(one[f"{guard}_seconds"] for guard in GUARDS) / one["step_seconds"] for one in of]
        rows.append([f"`{name}`", spread([1e3 * one["step_seconds"] for one in of], 1),
                     *(f"{1e3 * statistics.median(one[f'{guard}_seconds'] for one in of):.3f}" for guard in GUARDS),
                     spread(share, 2)])
    head = ["collective", "a step, ms", *(f"{guard}, ms" for guard in GUARDS), "all of it, % of the step"]
    return {"": f"n = {results['n']:,} (VGG-16), 1 %, {RANKS} ranks at 1 Gb/s. A step is the exchange alone.\n\n"
                + markdown(head, rows)}


# ---- growth, measured


GROWING = ["dense", "topka", "gtopk", "spardl", "oktopk", "exdyna", "knot"]
SETTINGS = {  # column: ranks, coordinates, density
    "2 ranks": (2, 1 << 22, 0.01), "4 ranks": (4, 1 << 22, 0.01), "8 ranks": (8, 1 << 22, 0.01),
    "n = 2^20": (4, 1 << 20, 0.01), "n = 2^24": (4, 1 << 24, 0.01),
    "0.1 %": (4, 1 << 22, 0.001), "10 %": (4, 1 << 22, 0.1),
}


def growth(bench: Bench) -> dict:
    steps, before = (2, 1) if bench.quick else (8, 3)
    runs: list[dict] = []
    with bench.cluster("1gbit", hosts=8) as words:
        for _ in range(bench.runs):
            runs.append({})
            for column, (ranks, n, density) in SETTINGS.items():
                run = [*words[:-2], "env", f"RANKS={ranks}", *words[-2:]]
                said = bench.json(*run, bench.topknot, "bench", "allreduce", "--n", n >> (8 if bench.quick else 0),
                                  "--density", density, "--steps", steps, "--warm-up", before, "--json",
                                  "--collective", *GROWING)
                runs[-1][column] = {name: {"seconds": row["seconds"], "sent_bytes": row["sent_bytes_max"]}
                                    for name, row in rows_of(said).items()}
    return {"runs": runs}


def growth_table(results: dict) -> dict[str, str]:
    runs = results["runs"]

    def rows(cell) -> list[list[str]]:
        return [[f"`{name}`", *(cell([run[column][name] for run in runs]) for column in SETTINGS)]
                for name in GROWING]

    head = ["4 ranks, n = 2^22, 1 %, but:", *SETTINGS]
    return {"time": "Milliseconds a step, median of the runs:\n\n" + markdown(
                head, rows(lambda of: f"{1e3 * statistics.median(one['seconds'] for one in of):,.1f}")),
            "bytes": "Megabytes that the busiest rank sends:\n\n" + markdown(
                head, rows(lambda of: f"{of[0]['sent_bytes'] / 1e6:,.3f}"))}


# ---- growth, predicted


BERT = "110M"
WORKERS = [4, 16, 64, 256, 1024, 4096]
SIZES = ["1M", "10M", "100M", "1G", "10G"]
DENSITIES = [0.0001, 0.001, 0.01, 0.1]
SCHEMES = ["dense", "dense-bf16", "topka", "topkdsa", "gtopk", "exdyna", "oktopk", "spardl", "knot", "knot-rounds"]
FIXED = ["dense", "dense-bf16", "knot-rounds"]  # have no density to vary


def predicted(bench: Bench) -> dict:
    """Arithmetic alone: the same figures on every machine."""

    def simulate(params, workers, densities=(0.01,)) -> list[dict]:
        return bench.json(bench.topknot, "simulate", "--params", params, "--workers", ",".join(map(str, workers)),
                          "--network", "10gbe", "--density", ",".join(map(str, densities)), "--scheme",
                          ",".join(SCHEMES), "--method", "closed-form", "--json")["results"]

    def kept(rows: list[dict], key: str) -> dict:
        found: dict = {}
        for row in rows:
            found.setdefault(row["scheme"], {})[str(row[key])] = [row["exchange_seconds"], row["bytes_per_rank"]]
        return found

    sizes: dict = {}
    for size in SIZES:
        for row in simulate(size, [64]):
            sizes.setdefault(row["scheme"], {})[size] = [row["exchange_seconds"], row["bytes_per_rank"]]
    return {"workers": kept(simulate(BERT, WORKERS), "ranks"), "sizes": sizes,
            "densities": kept(simulate(BERT, [64], DENSITIES), "density")}


def three_digits(x: float) -> str:
    if x >= 100:
        x = float(f"{x:.3g}")
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def predicted_tables(results: dict) -> dict[str, str]:
    def table(what: str, columns: dict[str, str], which: int, factor: float, schemes=SCHEMES) -> str:
        return markdown([title[what], *columns.values()],
                        [[f"`{name}`", *(three_digits(factor * results[what][name][key][which]) for key in columns)]
                         for name in schemes])

    title = {"workers": "workers", "sizes": "coordinates", "densities": "density"}
    workers = {str(one): f"{one:,}" for one in WORKERS}
    shares = {str(one): f"{100 * one:g} %" for one in DENSITIES}
    sparse = [name for name in SCHEMES if name not in FIXED]
    return {"workers": "Milliseconds of exchange in a step:\n\n" + table("workers", workers, 0, 1e3)
                       + "\nMegabytes that the busiest rank sends in a step:\n\n" + table("workers", workers, 1, 1e-6),
            "sizes": table("sizes", {one: one for one in SIZES}, 0, 1e3),
            "densities": table("densities", shares, 0, 1e3, sparse)}


def on(network: str, minutes: float, needs: tuple[str, ...], where: str) -> Table:
    return Table(f"allreduce-{network}", f"How long is an exchange of VGG-16's gradient {where}?", "results.md", minutes,
                 needs, functools.partial(allreduce, network), allreduce_table)


TABLES = [
    on("1gbit", 9, ("root", "mpi"), "on four hosts at 1 Gb/s"),
    on("100mbit", 16, ("root", "mpi"), "on four hosts at 100 Mb/s"),
    on("loopback", 4, ("mpi",), "on one host"),
    Table("mpi", "Does the MPI matter?", "results.md", 3, ("mpi", "build/mpich"), mpis, mpis_table),
    Table("integrity", "What do headers, checks, checksums and hashes cost?", "reliability.md", 4, ("root", "mpi"),
          integrity, integrity_table),
    Table("growth", "What grows with ranks, length and density? Measured", "growth.md", 8, ("root", "mpi"),
          growth, growth_table),
    Table("growth-predicted", "The same to 4,096 workers, predicted", "growth.md", 0.1, (), predicted, predicted_tables,
          timed=False),
]
