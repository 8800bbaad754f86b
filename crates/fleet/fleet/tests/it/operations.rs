//! The results of the commands.

use nagaya_fleet::commands::{self, Policy, StoreOptions};
use nagaya_fleet::plan::SeedRules;
use nagaya_fleet::protocol::Rebalance;
use nagaya_fleet::store::Store;
use nagaya_testkit::shared;

use crate::support::{block_on, installs, instance, join, shared_store, whole};

fn options(store: &Store) -> StoreOptions {
    StoreOptions::new(shared::redis().url().parse().unwrap(), store.app().clone())
}

/// Instances `i0`, `i1`, ... with these numbers of workers.
async fn lay_out(store: &Store, counts: &[usize]) {
    store.put(&installs(counts.iter().sum())).await.unwrap();
    let places = whole(store).await.places.unwrap();
    let mut waiting = places.iter().map(|(worker, place)| (worker.clone(), place.epoch));
    for (at, count) in counts.iter().enumerate() {
        let name = format!("i{at}");
        let joined = join(store, &name, "t").await;
        let own: Vec<_> = waiting.by_ref().take(*count).collect();
        store
            .assign(&instance(&name), joined.inc, "test", &own)
            .await
            .unwrap();
    }
}

#[test]
fn the_plan_is_shown_before_it_runs_and_the_list_tells_why() {
    let store = shared_store();
    block_on(async {
        lay_out(&store, &[4, 0]).await;
        let plan = commands::plan(options(&store), Rebalance::default())
            .await
            .unwrap();
        assert_eq!((plan.cost.moves, plan.cost.lower_bound), (2, 2));
        assert!(plan.to_table().contains("spread 4 -> 0"), "{}", plan.to_table());
        assert_eq!(plan.to_json()["steps"][0]["to"], "i1");
        let list = commands::list(options(&store)).await.unwrap();
        let json = list.to_json();
        assert_eq!(json["workers"][0]["why"], "test");
        assert_eq!(json["instances"][0]["workers"], 4);
        assert!(list.to_table().contains("w0003"));
        // Showing the plan changed nothing.
        assert_eq!(
            list.to_json(),
            commands::list(options(&store)).await.unwrap().to_json()
        );
    });
}

#[test]
fn p12_the_seed_policy_moves_as_the_documents_script_does() {
    // Moves measured on the original script, and what ours needs.
    for (counts, seed, even) in [
        (&[3, 0, 0, 0][..], 0, 2),
        (&[5, 2, 2, 2], 0, 2),
        (&[10, 10, 0], 8, 6),
    ] {
        for (policy, expected) in [(Policy::Seed(SeedRules::Code), seed), (Policy::Even, even)] {
            let store = shared_store();
            let moved = block_on(async {
                lay_out(&store, counts).await;
                commands::relocate_all(options(&store), policy).await.unwrap()
            });
            // A worker that the script moves twice is moved once here.
            assert!(
                moved <= expected && moved + 1 >= expected,
                "{counts:?} {policy:?}: {moved}"
            );
        }
    }
}

#[test]
fn a_drained_instance_is_asked_to_stop_everything_and_can_come_back() {
    let store = shared_store();
    block_on(async {
        lay_out(&store, &[2, 2]).await;
        let name = instance("i0");
        assert_eq!(commands::drain(options(&store), &name, true).await.unwrap(), 2);
        let list = commands::list(options(&store)).await.unwrap().to_json();
        assert_eq!(list["instances"][0]["state"], "draining");
        assert_eq!(list["workers"][0]["state"], "revoking");
        commands::drain(options(&store), &name, false).await.unwrap();
        let unknown = commands::drain(options(&store), &instance("nobody"), true).await;
        assert!(unknown.is_err());
        let told = commands::events(options(&store), None, 3).await.unwrap();
        assert_eq!(told[2]["what"], "draining");
    });
}
