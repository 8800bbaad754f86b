//! What every job store must do, as tests that each of them runs.
//!
//! `jobstore_suite!(with_store)` makes one `#[test]` of each case. `with_store` opens a fresh and empty store
//! whose clock is the harness's, calls the case with it, and cleans up. A new promise of the trait is a new
//! case here first.

// Cases are tests, though the compiler cannot know.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

pub mod admin;
pub mod clocks;
pub mod dependency;
pub mod events;
pub mod fair;
pub mod fence;
pub mod isolation;
pub mod keys;
pub mod leases;
pub mod lifecycle;
pub mod limits;
pub mod listing;
pub mod maintenance;
pub mod model;
pub mod operators;
pub mod random;
pub mod schedules;
pub mod two_servers;
pub mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};

use crate::clock::{Clock, ManualClock};
use crate::error::Error;
use crate::id::JobId;
use crate::job::{Body, NewJob};
use crate::name::{QueueName, TenantId};
use crate::queue::{Counted, QueueView};
use crate::request::{ClaimRequest, ClaimedJob, Completed, Completion, Enqueued, Failed, Failure, Finding};
use crate::state::{FailureTerms, State};
use crate::store::JobStore;
use crate::token::Lease;
use crate::view::JobView;
use crate::visibility::Visibility;

/// A case, ready to run.
pub type Case = fn(Harness) -> LocalBoxFuture<'static, ()>;

/// The time at which cases begin, Unix milliseconds.
pub const START_MS: i64 = 1_750_000_000_000;

/// Makes one test of each case. Takes a `fn(Case)` that calls what it is given with a fresh and empty store.
#[macro_export]
macro_rules! jobstore_suite {
    ($with_store:path) => {
        $crate::jobstore_suite! { @cases $with_store;
            lifecycle: [
                a_job_goes_from_waiting_through_running_to_succeeded,
                a_payload_comes_back_byte_for_byte,
                a_failed_attempt_is_tried_again_after_its_backoff,
                a_job_fails_for_good_after_all_its_attempts,
                a_permanent_failure_skips_the_retries,
                a_worker_may_ask_for_a_wait_of_its_own,
                a_lease_that_ran_out_counts_as_a_failed_attempt,
                a_job_that_kills_its_workers_ends,
                a_job_for_later_waits_for_its_time,
                higher_priority_goes_first_then_order_of_registration,
                a_retry_goes_behind_those_that_wait,
                a_later_queue_is_asked_for_what_the_first_could_not_give,
                a_claim_takes_no_more_than_it_asks_for,
                queues_lend_their_settings_to_jobs,
                an_extension_keeps_a_lease_alive,
                an_extension_never_shortens_a_lease,
                progress_and_log_lines_show_on_the_job,
                only_the_newest_log_lines_are_kept,
                a_waiting_job_can_be_cancelled,
                a_running_job_can_be_cancelled,
                a_job_that_ended_cannot_be_cancelled,
                a_failed_job_can_be_retried_with_all_its_attempts,
                a_succeeded_job_can_be_retried_and_keeps_its_history,
                items_of_one_call_are_judged_one_by_one,
            ];
            fence: [
                a_repeated_completion_is_idempotent,
                a_completion_with_another_result_is_refused,
                a_repeated_failure_is_idempotent,
                a_late_completion_changes_nothing_and_is_shown,
                an_old_attempt_cannot_speak_for_the_new_one,
                a_foreign_nonce_is_refused,
                a_cancelled_job_refuses_its_worker,
                a_lease_holds_until_it_is_taken_back,
                a_heartbeat_after_expiry_is_refused,
                unknown_jobs_are_refused_without_a_trace,
                late_reports_are_counted_and_the_last_ones_kept,
                one_of_two_sweepers_takes_a_lease,
                many_claims_at_once_give_each_job_once,
            ];
            operators: [
                a_job_that_waits_can_be_changed,
                a_job_that_waits_can_be_moved_to_another_queue,
                a_job_that_has_started_cannot_be_changed,
                an_ended_job_can_be_removed,
                a_queue_can_be_deleted_and_used_again,
            ];
            leases: [
                a_job_given_back_costs_no_attempt,
                a_job_given_back_waits_as_long_as_it_is_told,
                a_lease_that_was_given_back_is_worth_nothing,
                a_job_given_back_leaves_its_place_to_others,
                leases_are_extended_together,
                lost_leases_are_known_without_a_trace,
            ];
            keys: [
                an_idempotency_key_finds_the_first_registration,
                an_idempotency_key_is_forgotten_after_its_window,
                keys_of_tenants_and_queues_are_apart,
                two_items_of_one_call_with_one_key_are_one_job,
                many_registrations_at_once_with_one_key_are_one_job,
                a_unique_key_is_free_again_after_the_end,
                a_retry_does_not_steal_a_unique_key,
                an_idempotency_key_outlives_its_job,
                a_key_used_again_for_something_else_is_refused,
            ];
            dependency: [
                a_dependent_waits_for_all_its_parents,
                a_dependent_is_cancelled_when_a_parent_fails,
                cancelling_goes_down_the_whole_tree,
                a_dependent_waits_for_its_time_too,
                unknown_and_failed_parents_refuse_a_registration,
                a_parent_that_had_succeeded_is_no_hindrance,
                a_cancelled_dependent_is_forgotten,
                many_dependents_are_carried_along,
                retrying_a_parent_revives_the_children_it_cancelled,
                a_child_with_two_failed_parents_waits_for_both_to_be_retried,
            ];
            clocks: [
                a_clock_that_is_set_ahead_costs_no_lease,
                a_clock_that_is_set_back_makes_no_lease_longer,
                a_servers_downtime_does_not_count_against_leases,
                leases_end_after_a_start_when_nobody_is_heard,
            ];
            isolation: [
                a_job_of_another_tenant_is_no_dependency,
                a_tenant_sees_its_own_queues_and_counts,
                a_caller_bound_to_queues_sees_those,
                counts_are_as_much_work_as_asked_for,
            ];
            two_servers: [
                each_step_of_a_job_may_go_through_another_server,
                priority_holds_across_servers,
                a_queue_may_have_any_name,
                what_passed_is_counted_by_all_servers_together,
                counts_are_committed_with_what_they_count,
            ];
            limits: [
                no_more_jobs_of_a_key_run_than_its_limit,
                blocked_jobs_do_not_hinder_others,
                a_place_is_given_back_whatever_the_end,
                a_retry_takes_its_place_again,
                a_higher_limit_lets_more_in,
                a_full_queue_refuses_more,
                a_rate_is_kept,
                a_paused_queue_gives_nothing,
                why_a_job_is_not_running,
            ];
            fair: [
                a_large_tenant_does_not_starve_a_small_one,
                claims_of_one_take_turns,
                weights_give_larger_shares,
                a_worker_of_one_tenant_gets_only_its_jobs,
            ];
            schedules: [
                a_schedule_runs_once_for_each_time,
                of_two_servers_one_fires,
                a_paused_schedule_has_no_next_run,
                schedules_are_listed_replaced_and_deleted,
                a_refused_run_is_recorded_and_the_schedule_goes_on,
                refused_schedules_do_not_hold_up_others,
                a_schedule_that_never_comes_is_refused,
                cron_goes_on_after_the_clock_steps_back,
            ];
            events: [
                every_change_is_told_in_order,
                endings_carry_their_body,
                only_ends_when_the_queue_says_so,
                progress_is_told_now_and_then,
                a_filter_leaves_the_rest_out,
                pages_go_on_where_the_last_ended,
                a_reader_that_fell_behind_sees_the_gap,
                a_reader_never_finds_an_event_late,
                subscriptions_keep_their_cursor,
                a_subscription_takes_a_new_filter_and_keeps_its_cursor,
            ];
            listing: [
                jobs_are_listed_newest_first_on_any_page_size,
                filters_choose,
                a_queue_tells_its_depth_and_what_passed,
                the_oldest_waiting_job_is_known,
                next_times_are_known,
            ];
            maintenance: [
                ended_jobs_go_after_their_retention,
                a_jobs_own_retention_wins,
                a_purge_stops_at_its_limit,
                due_jobs_move_in_rounds,
            ];
            webhooks: [
                an_ending_makes_a_delivery,
                a_delivery_is_handed_out_once_in_its_lease,
                a_delivery_given_back_is_due_when_it_says,
                tries_are_kept_and_numbered,
                a_job_with_a_pending_delivery_stays,
                deliveries_can_be_replayed,
                a_claim_of_deliveries_has_shares_for_tenants_and_targets,
            ];
            admin: [
                tenants_have_weights,
                tokens_are_found_by_hash,
                facts_are_kept_and_the_first_one_wins,
                a_listener_is_told,
            ];
            random: [
                random_operations_keep_every_promise,
                random_operations_by_many_at_once_lose_nothing,
            ];
        }
    };
    (@cases $with_store:path; $($file:ident: [$($case:ident,)*];)*) => {
        $($(
            #[test]
            fn $case() {
                $with_store(|harness| Box::pin(async move { $crate::suite::$file::$case(&harness).await }));
            }
        )*)*
    };
}

/// Opens one more handle on the data of a harness.
pub type Reopen = Arc<dyn Fn() -> BoxFuture<'static, Arc<dyn JobStore>> + Send + Sync>;

/// A store to be tried, and its clock.
#[derive(Clone)]
pub struct Harness {
    pub store: Arc<dyn JobStore>,
    /// A second server on the same data; the same one again where there can be only one.
    pub second: Arc<dyn JobStore>,
    pub clock: Arc<ManualClock>,
    /// Opens the store as a server does that starts again.
    pub reopen: Reopen,
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

/// A plain job in the queue `q`.
fn job() -> NewJob {
    NewJob::new(TenantId::default_tenant(), queue("q"), Body::json("1"))
}

/// The same, changed.
fn job_with(change: impl FnOnce(&mut NewJob)) -> NewJob {
    let mut job = job();
    change(&mut job);
    job
}

fn wants(name: &str, max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: "w".into(),
        queues: vec![queue(name)],
        tenant: None,
        max,
        lease: None,
    }
}

impl Harness {
    pub fn now_ms(&self) -> i64 {
        self.clock.unix_ms()
    }

    async fn try_enqueue(&self, job: NewJob) -> Result<Enqueued, Error> {
        one(self.store.enqueue(vec![job]).await.unwrap())
    }

    async fn enqueue(&self, job: NewJob) -> JobId {
        self.try_enqueue(job).await.unwrap().id
    }

    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let answers = self.store.enqueue(jobs).await.unwrap();
        answers.into_iter().map(|answer| answer.unwrap().id).collect()
    }

    async fn ask(&self, request: ClaimRequest) -> Vec<ClaimedJob> {
        one(self.store.claim(vec![request]).await.unwrap())
    }

    async fn claim(&self, name: &str, max: usize) -> Vec<ClaimedJob> {
        self.ask(wants(name, max)).await
    }

    /// Claims one job of the queue `q`, which must be there.
    async fn take(&self) -> Lease {
        let claimed = self.claim("q", 1).await;
        assert_eq!(claimed.len(), 1, "a job was ready");
        claimed[0].lease
    }

    async fn complete(&self, lease: Lease, result: Option<Body>) -> Result<Completed, Error> {
        one(self
            .store
            .complete(vec![Completion { lease, result }])
            .await
            .unwrap())
    }

    async fn finish(&self, lease: Lease) {
        assert_eq!(self.complete(lease, None).await.unwrap(), Completed::Done);
    }

    async fn fail_with(&self, lease: Lease, error: &str, terms: FailureTerms) -> Result<Failed, Error> {
        let failure = Failure {
            lease,
            error: error.into(),
            terms,
        };
        one(self.store.fail(vec![failure]).await.unwrap())
    }

    async fn fail(&self, lease: Lease) -> Failed {
        self.fail_with(lease, "broken", FailureTerms::default())
            .await
            .unwrap()
    }

    async fn fail_for_good(&self, lease: Lease) {
        let terms = FailureTerms {
            permanent: true,
            retry_after: None,
        };
        self.fail_with(lease, "broken for good", terms).await.unwrap();
    }

    async fn cancel(&self, id: JobId) -> Result<State, Error> {
        let request = crate::request::CancelRequest {
            id,
            reason: Some("no longer wanted".into()),
        };
        one(self.store.cancel(vec![request]).await.unwrap())
    }

    async fn retry(&self, id: JobId) -> Result<(), Error> {
        one(self.store.retry(vec![id]).await.unwrap())
    }

    async fn queue(&self, name: &str) -> Option<QueueView> {
        self.queue_as(name, Visibility::everything()).await
    }

    async fn queue_as(&self, name: &str, seen: Visibility) -> Option<QueueView> {
        let queue = self.store.queue(queue(name), seen, Counted::All).await;
        queue.unwrap()
    }

    /// The same, with the second server as the first.
    fn swapped(&self) -> Harness {
        Harness {
            store: Arc::clone(&self.second),
            second: Arc::clone(&self.store),
            ..self.clone()
        }
    }

    /// Stops all servers, lets time pass, and starts one.
    async fn restart_after(&self, downtime: Duration) -> Harness {
        self.store.close().await;
        self.second.close().await;
        self.clock.advance(downtime);
        let store = (self.reopen)().await;
        Harness {
            second: Arc::clone(&store),
            store,
            ..self.clone()
        }
    }

    async fn view(&self, id: JobId) -> JobView {
        one(self.store.read(vec![id]).await.unwrap()).expect("the job is there")
    }

    async fn state(&self, id: JobId) -> State {
        one(self.store.states(vec![id]).await.unwrap()).expect("the job is there")
    }

    /// Lets time pass and does what is due by then.
    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.settle().await;
    }

    /// Does all that is due.
    async fn settle(&self) {
        loop {
            let swept = self.store.sweep_expired(100).await.unwrap();
            let moved = self.store.move_due(100).await.unwrap();
            let resolved = self.store.resolve_dependents(100).await.unwrap();
            if !(swept.more || moved.more || resolved.more) && swept.rows + moved.rows + resolved.rows == 0 {
                break;
            }
        }
    }

    /// Fails when the store has broken a promise that can be seen in its rows.
    pub async fn check(&self) {
        let findings = self.store.check().await.unwrap();
        assert_eq!(findings, Vec::<Finding>::new());
    }
}

fn one<T>(answers: Vec<T>) -> T {
    let count = answers.len();
    let mut answers = answers.into_iter();
    match (answers.next(), count) {
        (Some(answer), 1) => answer,
        _ => panic!("{count} answers for one item"),
    }
}
