//! Trace export by OTLP, over gRPC or HTTP, with TLS or without.
//!
//! Spans are batched by a thread of the SDK and sent by tasks on the runtime. Only spans of this program
//! are exported: the exporter's HTTP/2 connection makes spans too, and exporting those would never end.

use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::transport::{Certificate, ClientTlsConfig};
use tracing::warn;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Layer;

use crate::config::{OtlpEndpoint, OtlpProtocol, TelemetryConfig};
use crate::logs::{BoxedLayer, Error};
use crate::otlp_client::RuntimeClient;

#[derive(Debug)]
pub(crate) struct Exporter {
    provider: SdkTracerProvider,
    timeout: Duration,
}

/// Adds the layer that exports spans, if an endpoint is configured.
pub(crate) fn add_layer(
    config: &TelemetryConfig,
    mut layers: Vec<BoxedLayer>,
) -> Result<(Option<Exporter>, Vec<BoxedLayer>), Error> {
    let Some(endpoint) = &config.otlp_endpoint else {
        return Ok((None, layers));
    };
    let exporter = exporter(config, endpoint).map_err(|source| Error::Export {
        endpoint: endpoint.as_str().to_owned(),
        source,
    })?;
    let resource = Resource::builder_empty()
        .with_service_name(config.otlp_service_name.clone())
        .build();
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build();
    let ours = Targets::new().with_target("nagaya", LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("nagaya"))
        .with_filter(ours);
    layers.push(layer.boxed());
    crate::trace::switch_on();
    let timeout = config.otlp_timeout;
    Ok((Some(Exporter { provider, timeout }), layers))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn exporter(config: &TelemetryConfig, endpoint: &OtlpEndpoint) -> Result<SpanExporter, BoxError> {
    let ca = config.otlp_ca.as_deref();
    let built: Result<SpanExporter, ExporterBuildError> = match config.otlp_protocol {
        OtlpProtocol::Grpc => {
            let mut builder = SpanExporter::builder()
                .with_tonic()
                .with_endpoint(endpoint.as_str())
                .with_timeout(config.otlp_timeout);
            if endpoint.is_tls() {
                let trusted = nagaya_net::tls::trusted_pem(ca)?;
                let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(trusted));
                builder = builder.with_tls_config(tls);
            }
            builder.build()
        }
        OtlpProtocol::Http => SpanExporter::builder()
            .with_http()
            .with_http_client(RuntimeClient::new(endpoint.is_tls(), ca, config.otlp_timeout)?)
            .with_endpoint(endpoint.for_http())
            .with_timeout(config.otlp_timeout)
            .build(),
    };
    Ok(built?)
}

impl Exporter {
    pub(crate) fn shutdown(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(self.timeout) {
            warn!(%error, "the last spans were not exported");
        }
    }
}
