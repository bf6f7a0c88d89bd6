# SPDX-License-Identifier: Apache-2.0
"""topknot.LocalSteps."""


def test_two_ranks_take_local_steps_as_published(ranks):
    ranks(
        2,
        "local_steps_cases.py",
        "diloco_is_its_definition",
        "every_kind_keeps_ranks_together_and_trains",
        "sparseloco_sends_two_bits_of_one_in_64",
        "nothing_is_lost_with_or_without_delay",
        "a_delayed_mean_comes_a_round_later",
        "resumes_to_the_same_bits",
        "another_number_of_ranks_goes_on",
        "a_round_that_is_not_finite_is_dropped",
        "bf16_weights_are_the_same_bits",
        "refuses_what_cannot_be",
    )


def test_four_ranks_take_local_steps_as_published(ranks):
    ranks(
        4,
        "local_steps_cases.py",
        "diloco_is_its_definition",
        "nothing_is_lost_with_or_without_delay",
        "resumes_to_the_same_bits",
    )
