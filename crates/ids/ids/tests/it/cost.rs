//! What holders cost their Redis.

use nagaya_ids::pool::Phase;
use nagaya_redis_client::Need;
use nagaya_testkit::Redis;

use crate::support::{block_on, call, grant, holder, pool_of};

const HOLDERS: u64 = 1023;
/// Of one core, when each renews once per second. The goal is 5; the rest is for a busy machine.
const PERCENT_MAX: f64 = 10.0;

#[test]
fn a_thousand_holders_cost_redis_a_few_percent_of_a_core() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    let cpu_s = || {
        let part = |name: &str| redis.info(name).unwrap().parse::<f64>().unwrap();
        part("used_cpu_user") + part("used_cpu_sys")
    };
    block_on(async {
        pool.init(1, HOLDERS).await.unwrap();
        let mut held = Vec::new();
        for at in 0..HOLDERS {
            let id = holder(&format!("n{at}"), &format!("t{at}"));
            let grant = grant(&pool, &id, &call(60_000)).await;
            held.push((id, grant));
        }
        // The least of some rounds: other processes only ever add to what a round costs.
        let mut percent = f64::INFINITY;
        for _ in 0..3 {
            let before = cpu_s();
            for (id, grant) in &held {
                pool.extend(id, grant, Phase::InUse, &call(60_000), Need::PRIMARY_ONLY)
                    .await
                    .unwrap();
            }
            percent = percent.min((cpu_s() - before) * 100.0);
        }
        eprintln!("{HOLDERS} renewals cost redis {percent:.1} % of a core's second");
        assert!(percent < PERCENT_MAX, "{percent} %");
    });
}
