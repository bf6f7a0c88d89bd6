#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each bug that the sources can have, and holds the tests to finding it.

    mutants_test.py SOURCES PROGRAMS [NAME...]

SOURCES is the root of the tree, PROGRAMS the folder of the test programs, built with -DTOPKNOT_PLANTS=ON. Every
TOPKNOT_PLANT(name) in src/ has a line in KILLERS: the few tests that must fail with that bug and pass without it. Prints
who found each bug and exits 1 where one was not found, where a test fails with no bug, or where list and sources differ.
A test that hangs has found nothing.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

SECONDS = 300

# By test program: the bug, and the tests that find it.
KILLERS = {
    "wire_corruption_test": {
        "count_unchecked": "WireCorruption.IncludesMorePairsThanTheReceiverAccepts",
        "length_unchecked": "WireCorruption.IsFoundInTheLength",
        "checksum_not_compared": "WireChecksum.FindsWhatIsCutOrHasATail",
        "stale_message_accepted": "WireCorruption.IsFoundInTheHeader",
        "positions_may_fall": "WireCorruption.IsFoundInThePositions",
        "last_position_unchecked": "WireCorruption.IsFoundInThePositions",
        "padding_unchecked": "WireCorruption.IsFoundInThePositions",
    },
    "wire_values_test": {"bf16_ties_upward": "WireValues.Bf16RoundsToNearestEven"},
    "message_channel_test": {
        "nonfinite_flag_unread": "MessageChannel.TellsTheReaderWhateverTheMessageHas",
        "other_k_not_named": "MessageChannel.FindsRanksThatWantAnotherK",
    },
    "rank_order_sum_test": {"sum_in_order_of_arrival": "RankOrderSum.AddsInTheOrderOfTheRanks"},
    "host_residual_test": {"rounding_error_lost": "HostResidual.LeavesWhatRoundingTookOff"},
    "step_guard_test": {"nonfinite_step_kept": "StepGuard.UndoesAFoldBitForBit"},
    "dropped_values_test": {
        "dropped_values_lost": "DroppedValues.GivesBackWhatWasCut",
        "everyone_keeps_what_is_dropped": "DroppedValues.LeavesToTheKeeperWhatOthersDropAlike",
    },
    "global_topk_test": {
        "threshold_off_by_one": "GlobalTopK.BreaksTiesByRankAndThenByPosition",
        "one_tie_too_many": "GlobalTopK.BreaksTiesByRankAndThenByPosition",
    },
    "words_test": {"words_in_wrong_rank_order": "GatherWords.KeepsTheOrderOfTheRanks"},
    "memory_test": {
        "momentum_not_masked": "DgcMemory.IsMomentumCorrectionWithFactorMasking",
        "refused_step_moves_momentum": "EveryMemory.StepsBackToTheBitsItHad",
        "refused_step_decays": "EveryMemory.StepsBackToTheBitsItHad",
        "rate_of_the_first_step_kept": "Residual.ScalesByTheRateAtWhichItWasAddedWithTheRateInside",
    },
    "bucket_test": {
        "sum_for_the_mean": "Bucket.DividesASparseSumByTheNumberOfRanks",
        "last_sum_not_cleared": "Bucket.GivesTheMeanAndTheSameWhereverTheSumGoes",
    },
    "engine_test": {
        "clip_after_the_sum": "Engine.ClipsBeforeItSums",
        "clip_not_shared": "Engine.ClipsEachRanksOwnGradientAsDgcDoes",
    },
    "reducer_test": {
        "other_slots_not_undone": "Reducer.UndoesTheSlotsBeforeANonfiniteOneAndLeavesOutThoseBehind",
        "goes_on_after_an_error": "Reducer.TellsEverySubmitterOfAFailureAndKeepsTheState",
        "residual_forgotten": "Reducer.CarriesTheStateOfRemovedSlotsByParameter",
    },
    "failure_agreement_test": {
        "deadline_ignored": "FailureAgreement.FollowsTheWaitsToARankThatDoesNotAnswer",
        "wrong_blame": "FailureAgreement.FollowsTheWaitsToARankThatWaitsForNobody",
        "old_answer_believed": "FailureAgreement.BelievesNoAnswerThatComesWhenAnotherQuestionIsAsked",
        "damaged_control_message_believed": "FailureAgreement.IgnoresAMessageOfWhichABitHasTurned",
        "graphs_mixed": "FailureAgreement.IsNotMisledByRanksThatWaitForADiskToo",
        "failure_not_told": "FailureAgreement.TellsOfADisagreementOnce",
    },
    "control_channel_test": {
        "part_longer_than_its_message": "ControlChannel.RefusesLengthsThatAddUpOnlyWhenTheyOverflow",
        "other_operation_accepted": "ControlChannel.NamesARankAtAnotherOperation",
        "stale_control_message_accepted": "ControlChannel.RefusesAMessageOfAnEarlierOperation",
        "gathered_in_wrong_rank_order": "ControlChannel.GathersMessagesOfUnevenLengthOnEveryRank",
    },
    "inproc_test": {
        "message_cut_silently": "Inproc.RefusesAMessageOverTheLimitAndKeepsItsFirstBytes",
        "messages_overtake": "Inproc.DeliversInOrderWhatWasSentBeforeItWasAskedFor",
    },
    "crash_test": {
        "file_not_synced": "Crash.InTheVeryFirstSaveLeavesNothingOrAll",
        "folder_not_synced": "Crash.InTheVeryFirstSaveLeavesNothingOrAll",
    },
    "damage_test": {"file_hash_not_compared": "Damage.OfAnyByteIsNoticed"},
    "checkpoint_test": {
        "ranks_load_different_steps": "Checkpoint.StepsBackOnAllRanksWhenOneCannotRead",
        "fold_not_scaled": "Checkpoint.FoldsResidualsSoThatTheirMeanIsKept",
        "lock_not_read": "Checkpoint.CannotBePublishedByAnOlderRun",
    },
    "idx_test": {"label_unchecked": "*RefusesALabelOutOfRange*"},
}


def planted_in(sources):
    """The names of all bugs in the sources."""
    text = "".join(path.read_text() for path in sorted((sources / "src").rglob("*.*"))
                   if path.suffix in (".cc", ".h") and path.name != "plant.h")
    return set(re.findall(r"TOPKNOT_PLANT\((\w+)\)", text))


def run(program, tests, bug=""):
    """Whether the tests pass, and what the first that did not says."""
    environment = {**os.environ, "TOPKNOT_PLANTED": bug}
    try:
        done = subprocess.run([program, f"--gtest_filter={tests}", "--gtest_fail_fast"], env=environment,
                              capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True, f"no end after {SECONDS} s"
    said = done.stdout + done.stderr
    if "[==========] 0 tests" in said or "Running 0 tests" in said:
        return True, f"there is no test {tests}"
    found = re.search(r"ERROR: \w+Sanitizer: [\w-]+|runtime error: [^\n]*|\[  FAILED  \] [\w./]+", said)
    return done.returncode == 0, found[0] if found else f"exit code {done.returncode}"


def faults(sources, programs, wanted):
    """A sentence for each thing that is wrong; prints the rest."""
    listed = {bug for bugs in KILLERS.values() for bug in bugs}
    for bug in sorted(planted_in(sources) ^ listed):
        yield f"{bug} is in the sources or in the list, not in both"
    killed = planted = 0
    for program, bugs in KILLERS.items():
        bugs = {bug: tests for bug, tests in bugs.items() if not wanted or bug in wanted}
        for tests in sorted(set(bugs.values())):
            passed, why = run(programs / program, tests)
            if not passed:
                yield f"{program}, {tests}: fails with no bug planted ({why})"
        for bug, tests in bugs.items():
            planted += 1
            passed, why = run(programs / program, tests, bug)
            if passed:
                yield f"{bug} survives {program}, {tests} ({why})"
                continue
            killed += 1
            print(f"{bug}: {why}", flush=True)
    print(f"killed {killed} of {planted} planted", flush=True)


def main():
    sources, programs, *wanted = sys.argv[1:]
    found = list(faults(Path(sources), Path(programs), set(wanted)))
    for fault in found:
        print(f"WRONG: {fault}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
