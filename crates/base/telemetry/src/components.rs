//! The state of the components of a process.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::Stats;

/// The states of all components.
#[derive(Clone, Debug, Default)]
pub struct ComponentStats(pub Vec<ComponentState>);

/// The state of one component.
#[derive(Clone, Debug)]
pub struct ComponentState {
    pub name: String,
    pub is_ready: bool,
    pub restarts: u64,
}

impl Stats for ComponentStats {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = ConstGauge::new(0.0).metric_type();
        let help = "Whether a component is ready: 1 or 0.";
        let mut ready = encoder.encode_descriptor("nagaya_component_ready", help, None, kind)?;
        for component in &self.0 {
            let labels = [("component", component.name.as_str())];
            let value = ConstGauge::new(f64::from(u8::from(component.is_ready)));
            value.encode(ready.encode_family(&labels)?)?;
        }
        let kind = ConstCounter::new(0u64).metric_type();
        let help = "Starts of a component after a failure.";
        let mut restarts = encoder.encode_descriptor("nagaya_component_restarts", help, None, kind)?;
        for component in &self.0 {
            let labels = [("component", component.name.as_str())];
            ConstCounter::new(component.restarts).encode(restarts.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
