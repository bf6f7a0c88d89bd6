# SPDX-License-Identifier: Apache-2.0
"""topknot.attach() on DistributedDataParallel."""

import pathlib
import re


def test_two_ranks_train_as_they_do_without(ranks):
    ranks(
        2,
        "ddp_cases.py",
        "density_one_is_plain_ddp",
        "dgc_that_sends_all_is_plain_momentum",
        "a_scheme_warms_up_unless_it_is_told_otherwise",
        "dgc_clips_each_ranks_own_gradient",
        "one_percent_is_the_same_bits_everywhere",
        "unused_parameters_are_zeros",
        "accumulation_reduces_once",
        "bf16_parameters_are_reduced_in_f32",
        "refuses_what_it_cannot_do",
    )


def test_attach_with_an_optimizer(ranks):
    ranks(
        2, "ddp_cases.py", "attach_takes_the_momentum_over", "the_learning_rate_reaches_the_memory"
    )


def test_vgg16_trains_as_it_does_without(ranks):
    ranks(2, "ddp_cases.py", "vgg16_has_default_buckets")


def test_four_ranks_lose_nothing(ranks):
    ranks(
        4,
        "ddp_cases.py",
        "one_percent_is_the_same_bits_everywhere",
        "nothing_is_lost_from_the_first_step_on",
        "a_step_that_is_not_finite_is_undone",
        "resumes_to_the_same_bits_with_several_buckets",
        "another_number_of_ranks_goes_on",
        "empty_selections_do_not_hang",
        "nothing_is_unpickled",
    )


def test_a_killed_rank_is_named_by_all_others(torchrun):
    script = pathlib.Path(__file__).parent / "ddp_cases.py"
    done = torchrun(4, script, "a_killed_rank_is_named")
    said = [line for line in done.stdout.splitlines() if " after " in line]
    assert len(said) == 3, done.stdout + done.stderr
    for line in said:
        assert ": rank 1 " in line, line
        assert float(line.split(" after ")[1].split(" s:")[0]) < 20, line


def test_the_example_of_the_tutorial_learns(torchrun):
    """Generated pictures or Fashion-MNIST, as the machine has them."""
    done = torchrun(2, pathlib.Path(__file__).parents[2] / "examples" / "ddp_fashion_mnist.py")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    said = re.search(r"accuracy ([0-9.]+)%; sent ([0-9.]+)% of", done.stdout)
    assert said, done.stdout
    assert float(said[1]) > 70 and float(said[2]) < 5, done.stdout
