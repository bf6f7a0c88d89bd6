# SPDX-License-Identifier: Apache-2.0
"""scheme="auto", and topknot.advise()."""


def test_two_ranks_decide(ranks):
    ranks(
        2,
        "auto_cases.py",
        "attach_takes_what_can_be_named",
        "an_optimizer_takes_what_can_be_named",
        "a_bucket_may_be_sent_whole_beside_sparse_ones",
        "a_state_of_another_decision_is_refused",
        "a_rank_that_names_a_scheme_is_told",
        "refuses_what_leaves_no_choice",
        "advice_is_by_the_network",
    )
