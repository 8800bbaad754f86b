//! Which components are ready, for `/readyz` and the banner.

use nagaya_telemetry::components::{ComponentState, ComponentStats};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The lifecycle state of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Starting,
    Ready,
    Draining,
    Stopped,
    Failed,
}

/// One component's name and state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) state: State,
    /// Free text from the component, shown beside its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// How often it was started again after a failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) restarts: u64,
    /// It has failed for good: nothing that it reports makes it ready again.
    #[serde(skip)]
    pub(crate) condemned: bool,
    /// It has been ready at least once.
    #[serde(skip)]
    pub(crate) was_ready: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The states of all components; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    components: watch::Sender<Vec<Component>>,
}

/// The handle with which one component reports its state.
#[derive(Debug)]
pub struct Ready {
    readiness: Readiness,
    index: usize,
}

impl Readiness {
    pub(crate) fn new(names: &[&str]) -> Readiness {
        let starting = |name: &&str| Component {
            name: (*name).to_owned(),
            state: State::Starting,
            detail: None,
            restarts: 0,
            condemned: false,
            was_ready: false,
        };
        Readiness {
            components: watch::Sender::new(names.iter().map(starting).collect()),
        }
    }

    pub(crate) fn handle(&self, index: usize) -> Ready {
        Ready {
            readiness: self.clone(),
            index,
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<Component> {
        self.components.borrow().clone()
    }

    /// Returns the states for a scrape.
    pub(crate) fn stats(&self) -> ComponentStats {
        let components = self.components.borrow();
        let state = |component: &Component| ComponentState {
            name: component.name.clone(),
            is_ready: component.state == State::Ready,
            restarts: component.restarts,
        };
        ComponentStats(components.iter().map(state).collect())
    }

    /// The state of the server: that of its components if they agree, else the worst.
    pub(crate) fn overall(components: &[Component]) -> State {
        let any = |state: State| components.iter().any(|component| component.state == state);
        match () {
            () if any(State::Failed) => State::Failed,
            () if any(State::Draining) || any(State::Stopped) => State::Draining,
            () if any(State::Starting) => State::Starting,
            () => State::Ready,
        }
    }

    /// Waits until all components are ready. Cancel safe.
    pub(crate) async fn all_ready(&self) {
        let mut changes = self.components.subscribe();
        let reached = changes
            .wait_for(|components| Readiness::overall(components) == State::Ready)
            .await;
        drop(reached.expect("the sender is held by self"));
    }

    /// Waits until one component is ready. Cancel safe.
    pub(crate) async fn is_ready(&self, name: &str) {
        let mut changes = self.components.subscribe();
        let is_ready = |component: &Component| component.name == name && component.state == State::Ready;
        let reached = changes
            .wait_for(|components| components.iter().any(is_ready))
            .await;
        drop(reached.expect("the sender is held by self"));
    }

    pub(crate) fn set(&self, index: usize, state: State) {
        self.components
            .send_modify(|components| components[index].state = state);
    }

    /// Returns whether a component has ever been ready.
    pub(crate) fn was_ready(&self, index: usize) -> bool {
        self.components.borrow()[index].was_ready
    }

    /// Marks a component as failed, with the reason, until it is ready again.
    pub(crate) fn set_failed(&self, index: usize, reason: String) {
        self.components.send_modify(|components| {
            let component = &mut components[index];
            component.state = State::Failed;
            if !component.condemned {
                component.detail = Some(reason);
            }
        });
    }

    /// Counts a component that is started again.
    pub(crate) fn count_restart(&self, index: usize) {
        self.components
            .send_modify(|components| components[index].restarts += 1);
    }

    /// Marks a component as failed until the server is started again, if there is one of that name.
    pub(crate) fn condemn(&self, name: &str, reason: &str) {
        self.components.send_modify(|components| {
            let named = components.iter_mut().filter(|component| component.name == name);
            named.for_each(|component| {
                component.condemned = true;
                component.state = State::Failed;
                component.detail = Some(reason.to_owned());
            });
        });
    }

    /// Marks all that have not ended as draining.
    pub(crate) fn set_draining(&self) {
        self.components.send_modify(|components| {
            let running =
                |component: &&mut Component| matches!(component.state, State::Starting | State::Ready);
            components
                .iter_mut()
                .filter(running)
                .for_each(|component| component.state = State::Draining);
        });
    }
}

impl Ready {
    /// Marks the component as ready. Has no effect while draining.
    pub fn ready(&self) {
        self.readiness.components.send_modify(|components| {
            let component = &mut components[self.index];
            if matches!(component.state, State::Starting | State::Failed) && !component.condemned {
                component.state = State::Ready;
                component.was_ready = true;
            }
        });
    }

    /// Sets the text that is shown beside the state.
    pub fn set_detail(&self, detail: impl Into<String>) {
        let detail = Some(detail.into());
        self.readiness.components.send_if_modified(|components| {
            let component = &mut components[self.index];
            let is_new = component.detail != detail && !component.condemned;
            if is_new {
                component.detail = detail;
            }
            is_new
        });
    }

    /// Marks the component as failed until it reports ready again.
    pub fn failed(&self) {
        self.readiness.components.send_modify(|components| {
            let component = &mut components[self.index];
            if component.state == State::Ready {
                component.state = State::Failed;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_ready_when_all_components_are() {
        let readiness = Readiness::new(&["a", "b"]);
        let overall = || Readiness::overall(&readiness.snapshot());
        readiness.handle(0).ready();
        assert_eq!(overall(), State::Starting);
        readiness.handle(1).ready();
        assert_eq!(overall(), State::Ready);
        readiness.handle(1).failed();
        assert_eq!(overall(), State::Failed);
        readiness.handle(1).ready();
        assert_eq!(overall(), State::Ready);
        readiness.set_draining();
        readiness.handle(0).ready();
        assert_eq!(overall(), State::Draining);
        readiness.set(0, State::Stopped);
        assert_eq!(overall(), State::Draining);
        readiness.set(1, State::Failed);
        assert_eq!(overall(), State::Failed);
    }

    #[test]
    fn a_condemned_component_never_becomes_ready_again() {
        let readiness = Readiness::new(&["a", "b"]);
        let handle = readiness.handle(0);
        handle.ready();
        readiness.handle(1).ready();
        readiness.condemn("a", "its folder is gone");
        readiness.condemn("c", "there is none");
        handle.ready();
        handle.set_detail("all is well");
        let component = &readiness.snapshot()[0];
        assert_eq!(component.state, State::Failed);
        assert_eq!(component.detail.as_deref(), Some("its folder is gone"));
        assert_eq!(readiness.snapshot()[1].state, State::Ready);
    }

    #[tokio::test]
    async fn one_component_can_be_waited_for() {
        let readiness = Readiness::new(&["a", "b"]);
        let wait = readiness.is_ready("b");
        tokio::pin!(wait);
        readiness.handle(0).ready();
        let early = tokio::time::timeout(std::time::Duration::ZERO, wait.as_mut()).await;
        assert!(early.is_err());
        readiness.handle(1).ready();
        wait.await;
    }
}
