# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer, SparseAllreduce and FSDP."""


def test_two_ranks_without_ddp(ranks):
    ranks(
        2,
        "other_cases.py",
        "optimizer_at_density_one_is_ddp",
        "optimizer_keeps_ranks_together",
        "sparse_allreduce_loses_nothing",
        "sparse_allreduce_at_density_one_is_the_mean",
        "sparse_allreduce_resumes_to_the_same_bits",
        "every_scheme_takes_a_tensor",
        "closed_sessions_cost_no_time",
        "disagreeing_ranks_are_told",
        "every_option_is_compared",
        "a_scheme_that_one_rank_alone_misspells_leaves_none_waiting",
        "differences_are_named_once_and_briefly",
    )


def test_two_ranks_whose_scripts_do_more(ranks):
    ranks(
        2,
        "script_cases.py",
        "a_closure_runs_before_the_exchange",
        "compiled_models_are_the_models_they_were_made_of",
        "stats_are_logged_in_one_line",
        "an_adapter_goes_on_with_another_number_of_ranks",
        "an_adapter_does_nothing_without_ddp",
    )


def test_four_ranks_without_ddp(ranks):
    ranks(
        4,
        "other_cases.py",
        "optimizer_at_density_one_is_ddp",
        "sparse_allreduce_loses_nothing",
        "closed_sessions_cost_no_time",
        "fsdp_at_density_one_is_ddp",
        "fsdp_resumes_to_the_same_bits",
        "fsdp_replicas_stay_together",
    )


def test_four_ranks_that_fail(ranks):
    ranks(
        4,
        "other_cases.py",
        "a_stopped_rank_is_named_in_every_scheme",
        "another_k_is_a_disagreement_on_all_ranks",
    )
