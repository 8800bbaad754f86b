use std::time::Duration;

use super::*;

fn at(seconds: u64) -> BootTime {
    BootTime::ZERO + Duration::from_secs(seconds)
}

fn times(sent: u64, received: u64) -> Times {
    Times {
        sent: at(sent),
        received: at(received),
    }
}

fn timing() -> Timing {
    Timing {
        use_for: Duration::from_secs(6),
        interval: Duration::from_secs(2),
        ..Timing::default()
    }
}

fn opening(floor_passed: u64) -> Opening {
    Opening {
        delay: Duration::from_secs(8),
        floor_passed: at(floor_passed),
    }
}

fn granted(at_once: bool, sent: u64, received: u64) -> LeaseState<u8> {
    let mut lease_state = LeaseState::new(&timing());
    assert_eq!(lease_state.next(at(0)), LeaseAction::Get);
    let held = Held {
        number: 1,
        fence: 7,
        at_once,
        run: 1,
    };
    lease_state.granted(held, opening(0), times(sent, received));
    lease_state
}

fn confirmed(run: u8) -> Renewal<u8> {
    Renewal::Confirmed {
        run_changed: false,
        run,
    }
}

#[test]
fn a_number_granted_at_once_may_be_used_from_its_sending() {
    let lease_state = granted(true, 100, 104);
    assert_eq!(lease_state.window().unwrap().1, at(106));
    assert_eq!(lease_state.next(at(105)), LeaseAction::Extend(Phase::InUse));
}

#[test]
fn a_strangers_number_is_waited_for_from_receipt_and_opened_by_a_later_renewal() {
    let mut lease_state = granted(false, 100, 101);
    assert_eq!(lease_state.window(), None);
    assert_eq!(lease_state.next(at(102)), LeaseAction::Extend(Phase::Waiting));
    lease_state.renewed(Phase::Waiting, confirmed(1), times(102, 103), at(103));
    assert_eq!(lease_state.next(at(103)), LeaseAction::WaitUntil(at(104)));
    lease_state.renewed(Phase::Waiting, confirmed(1), times(108, 120), at(120));
    assert_eq!(
        lease_state.window(),
        None,
        "a renewal sent before the delay was over opens nothing"
    );
    assert_eq!(lease_state.next(at(120)), LeaseAction::Extend(Phase::DelayOver));
    lease_state.renewed(Phase::DelayOver, confirmed(1), times(120, 121), at(121));
    assert_eq!(lease_state.window().unwrap().1, at(126));
}

#[test]
fn a_run_that_changes_during_the_delay_begins_it_again() {
    let mut lease_state = granted(false, 100, 101);
    lease_state.renewed(Phase::DelayOver, confirmed(2), times(109, 110), at(110));
    assert_eq!(lease_state.next(at(110)), LeaseAction::Get);
    assert_eq!(lease_state.held(), None);
}

#[test]
fn an_unbroken_window_goes_on_over_a_change_of_run() {
    let mut lease_state = granted(true, 100, 100);
    let changed = Renewal::Confirmed {
        run_changed: true,
        run: 2,
    };
    lease_state.renewed(Phase::InUse, changed, times(102, 105), at(105));
    assert_eq!(lease_state.window().unwrap().1, at(108));
}

#[test]
fn a_window_that_ended_before_the_reply_does_not_survive_a_change_of_run() {
    let mut lease_state = granted(true, 100, 100);
    let changed = Renewal::Confirmed {
        run_changed: true,
        run: 2,
    };
    lease_state.renewed(Phase::InUse, changed, times(105, 106), at(106));
    assert_eq!(lease_state.next(at(106)), LeaseAction::Get);
}

#[test]
fn a_lost_reply_does_not_hide_a_change_of_run() {
    // The renewal of 104 ran under run 2, so the record says run 2; its reply never came.
    let mut lease_state = granted(true, 100, 100);
    lease_state.renewed(Phase::InUse, Renewal::Unknown, times(104, 109), at(109));
    assert_eq!(lease_state.next(at(109)), LeaseAction::Extend(Phase::Lapsed));
    lease_state.renewed(Phase::Lapsed, confirmed(2), times(109, 110), at(110));
    assert_eq!(lease_state.next(at(110)), LeaseAction::Get);
}

#[test]
fn a_lapsed_window_opens_again_under_the_same_run() {
    let mut lease_state = granted(true, 100, 100);
    assert_eq!(lease_state.next(at(107)), LeaseAction::Extend(Phase::Lapsed));
    lease_state.renewed(Phase::Lapsed, confirmed(1), times(107, 108), at(108));
    assert_eq!(lease_state.window().unwrap().1, at(113));
}

#[test]
fn a_robbed_holder_asks_again_unless_its_own_name_robbed_it() {
    let mut lease_state = granted(true, 100, 100);
    let robbed = |same_name| Renewal::Refused(Refusal::Robbed { same_name });
    lease_state.renewed(Phase::InUse, robbed(false), times(102, 103), at(103));
    assert_eq!(lease_state.next(at(103)), LeaseAction::Get);
    let mut lease_state = granted(true, 100, 100);
    lease_state.renewed(Phase::InUse, robbed(true), times(102, 103), at(103));
    assert_eq!(lease_state.next(at(103)), LeaseAction::GiveUp);
}

#[test]
fn failed_renewals_keep_the_window_they_have() {
    let mut lease_state = granted(true, 100, 100);
    lease_state.renewed(Phase::InUse, Renewal::Unknown, times(102, 103), at(104));
    assert_eq!(lease_state.window().unwrap().1, at(106));
    assert_eq!(lease_state.next(at(103)), LeaseAction::WaitUntil(at(104)));
}

#[test]
fn a_number_is_not_used_before_the_clock_has_passed_the_times_used_with_it() {
    let held = |at_once| Held {
        number: 1,
        fence: 7,
        at_once,
        run: 1,
    };
    for (at_once, floor_passed, opens_after) in [(true, 103, 103), (false, 103, 109), (false, 112, 112)] {
        let mut lease_state = LeaseState::new(&timing());
        lease_state.granted(held(at_once), opening(floor_passed), times(100, 101));
        assert_eq!(lease_state.opens_after(), Some(at(opens_after)));
        assert_eq!(lease_state.window(), None);
    }
}
