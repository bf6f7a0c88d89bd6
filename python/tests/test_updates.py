# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer that exchanges updates."""


def test_two_ranks_exchange_updates(ranks):
    ranks(
        2,
        "updates_cases.py",
        "density_one_is_an_exchange_of_gradients",
        "a_schedule_that_begins_dense_is_the_dense_optimizer",
        "a_rule_is_sparse_where_all_else_is_sent_whole",
        "ranks_keep_the_same_bits",
        "weights_of_any_type_keep_the_same_bits",
        "first_moments_are_masked_where_this_rank_was_settled",
        "decoupled_decay_is_of_the_agreed_weights",
        "clip_is_for_each_ranks_own_gradient",
        "resumes_to_the_same_bits",
    )


def test_four_ranks_exchange_updates(ranks):
    ranks(
        4,
        "updates_cases.py",
        "ranks_keep_the_same_bits",
        "nothing_is_lost",
        "gain_is_for_second_moments",
        "updates_train_better_than_gradients",
    )


def test_two_ranks_where_something_goes_wrong(ranks):
    ranks(
        2,
        "updates_fault_cases.py",
        "a_grad_scaler_skips_on_all_ranks",
        "a_step_that_raises_leaves_the_agreed_weights",
        "weights_that_drift_apart_are_told",
        "refuses_what_cannot_be",
        "residuals_that_overflow_are_left",
    )


def test_four_ranks_where_something_goes_wrong(ranks):
    ranks(4, "updates_fault_cases.py", "a_step_that_is_not_finite_is_undone")
