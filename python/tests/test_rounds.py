# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer with local steps."""


def test_two_ranks_take_local_steps(ranks):
    ranks(
        2,
        "rounds_cases.py",
        "one_local_step_is_an_exchange_on_every_step",
        "what_is_set_decides_the_rest",
        "dense_rounds_are_the_mean_of_local_sgd",
        "nothing_set_exchanges_on_every_fourth_step",
        "weights_of_any_type_are_the_same_bits_after_a_round",
        "nothing_is_lost",
        "a_round_is_ended_early",
        "resumes_to_the_same_bits",
        "gain_is_for_every_local_change_and_not_for_decay",
        "clip_is_for_each_local_gradient",
        "first_moments_stay",
        "second_moments_are_averaged_every_64_rounds",
    )


def test_three_ranks_take_local_steps(ranks):
    ranks(
        3,
        "rounds_cases.py",
        "dense_rounds_are_the_mean_of_local_sgd",
        "nothing_set_exchanges_on_every_fourth_step",
        "resumes_to_the_same_bits",
    )


def test_four_ranks_take_local_steps(ranks):
    ranks(4, "rounds_cases.py", "nothing_is_lost", "nothing_set_trains_as_well_as_dense")


def test_two_ranks_where_something_goes_wrong_in_a_round(ranks):
    ranks(
        2,
        "rounds_fault_cases.py",
        "a_rank_skips_a_step_whose_gradient_is_not_finite",
        "a_gradient_whose_norm_overflows_is_finite",
        "a_skipped_step_is_all_that_is_missing",
        "a_change_that_is_not_finite_drops_the_round",
        "a_grad_scaler_skips_alone_but_for_the_last_step",
        "a_round_that_a_scaler_has_skipped_is_ended_early",
        "a_step_that_raises_counts",
        "weights_that_drift_apart_are_told",
        "refuses_what_cannot_be",
    )
