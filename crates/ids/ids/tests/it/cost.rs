//! What holders cost their Redis.

use nagaya_ids::pool::Phase;
use nagaya_redis_client::Need;
use nagaya_testkit::Redis;

use crate::support::{block_on, call, grant, holder, make, pool_of};

const HOLDERS: u64 = 100;

#[test]
fn a_renewal_costs_redis_one_script() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, HOLDERS).await.unwrap();
        let mut held = Vec::new();
        for at in 0..HOLDERS {
            let id = holder(&format!("n{at}"), &format!("t{at}"));
            let grant = grant(&pool, &id, &call(60_000)).await;
            held.push((id, grant));
        }
        let renew_all = async || {
            for (id, grant) in &held {
                pool.extend(id, grant, Phase::InUse, &call(60_000), Need::PRIMARY_ONLY)
                    .await
                    .unwrap();
            }
        };
        // The first round loads the script.
        renew_all().await;
        redis.cmd(&["CONFIG", "RESETSTAT"]);
        renew_all().await;
    });
    let stats = redis.cmd(&["INFO", "commandstats"]).text();
    let scripts = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let scripts = scripts.and_then(|rest| rest.split(',').next());
    assert_eq!(scripts, Some(HOLDERS.to_string().as_str()), "{stats}");
    assert!(!stats.contains("cmdstat_eval:"), "{stats}");
    assert!(!stats.contains("cmdstat_script"), "{stats}");
}
