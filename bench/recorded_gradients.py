# SPDX-License-Identifier: Apache-2.0
"""How does every compressor do on real gradients of every domain?

Trains each job for a few steps with knot at 1 %, records what rank 0 gives to the exchange on some of
them, and puts the file through `topknot bench select`, which has density, smallest magnitude and time.
"""

from pathlib import Path

# By short name: the job, the steps that are recorded, the keys that shorten the run, and its title.
JOBS = {
    "vgg16": ("vgg16-cifar10", "5,10,15,19", ["batch=8", "steps=20"], "VGG-16"),
    "resnet20": ("resnet20-cifar10", "20,30,40,49", ["warmup=0.1", "steps=50"], "ResNet-20"),
    "lstm": ("lstm-wikitext2-small", "20,30,40,49", ["steps=50"], "LSTM, WikiText-2"),
    "an4": ("lstm-an4-small", "20,30,40,49", ["steps=50"], "LSTM, AN4"),
    "bert": ("bert-wikipedia-small", "20,30,40,49", ["steps=50"], "BERT tiny"),
    "ncf": ("ncf-movielens-small", "50,100,150,199", ["steps=200"], "NCF"),
}
DENSITY = 0.01


def measure(bench, data: Path, folder: Path, name: str) -> dict:
    job, steps, changes, _ = JOBS[name]
    file = folder / f"{name}.safetensors"
    bench.run(bench.topknot, "train", job, "--scheme", "knot", "--density", DENSITY, "--data", data,
              "--workers", 4, "--record-gradients", file, "--record-ranks", 0, "--record-steps", steps,
              "--quiet", "--no-evaluate", "--set", "density_schedule=constant", *changes)
    return bench.json(bench.topknot, "bench", "select", "--gradients", file, "--json", "--density", DENSITY,
                      "--steps", 40, "--compressor", "all")
