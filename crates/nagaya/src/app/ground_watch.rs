//! Looks after the data folder while the server runs.
//!
//! What is written into a folder that was removed or replaced is lost with the process. The services that keep
//! files there refuse writes as soon as a look finds it so (each of them also looks before it calls something
//! safe), and they stay failed until the server is started again.

use std::time::Duration;

use nagaya_process::Ground;

use crate::app::readiness::Readiness;

/// The interval of the looks: what is acknowledged between the loss and the next look is lost, too.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks at the data folder at intervals, and marks those who keep files in it as failed when it is lost. Never
/// returns.
pub(crate) async fn watch(ground: Ground, readiness: Readiness, keepers: Vec<&'static str>) {
    ground.on_loss(move |lost| {
        for name in keepers {
            readiness.condemn(name, &lost.to_string());
        }
    });
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        let looked = ground.clone();
        // On a thread of its own: a look may hang as long as a file system of another machine does.
        if let Ok(Err(_)) = tokio::task::spawn_blocking(move || looked.check()).await {
            // It stays lost.
            return std::future::pending().await;
        }
    }
}
