//! Outgoing calls: webhooks to submitters, notices to administrators.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use axum::Router;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::future::BoxFuture;
use nagaya_config::{ByteSize, Secret, Unset, choices, settings};
use nagaya_deliver::api::{Authorize, Permission, Principal};
use nagaya_deliver::guard::{Allow, Client, Limits};
use nagaya_deliver::notify::{
    ChatConfig, Config, MailConfig, MailTls, Notifier, RouteConfig, RouteKind, Timing,
};
use nagaya_deliver::webhook::{self, BodyConfig, Deliverer};
use nagaya_jobs::service::Jobs;
use nagaya_jobs_api::Api;
use tokio_util::sync::CancellationToken;

use super::stats::StatsReader;

settings! {
    /// Webhooks that tell submitters what became of their jobs.
    pub struct WebhooksConfig in "jobs.webhooks" {
        /// Addresses, networks (`10.0.0.0/8`) and names (`hooks.internal`, `*.internal`) that may be reached although
        /// they are not on the public internet.
        allow: Vec<String> = [""; 0], fixed;
        /// Refuse targets without TLS.
        https_only: bool = false, fixed;
        /// Certificates of authorities to trust instead of the system's, PEM.
        ca: Option<PathBuf> = Unset, fixed;
        /// Where readers reach this server, for links in what is sent: `https://jobs.example.com`.
        public_url: Option<String> = Unset, fixed;
        /// An event whose body would be larger is sent without its result or error.
        body_max: ByteSize = "20kb", fixed, range "1kb" to "1mb";
        /// How long one try may take.
        timeout: Duration = "20s", fixed, range "1s" to "25s";
        /// Deliveries under way at a time. A tenant has at most half of what the others leave free.
        concurrency: usize = 128, fixed, range 1 to 10000;
        /// Deliveries under way to one target of one tenant at a time.
        per_target: usize = 8, fixed, range 1 to 1000;
    }
}

choices! {
    /// How mail is protected on its way to the mail server.
    pub enum MailProtection {
        /// Begins in the clear and must go on with TLS.
        StartTls = "starttls",
        /// TLS from the first byte.
        Tls = "tls",
        /// In the clear, for a server on this machine.
        Off = "off",
    }
}

settings! {
    /// Who is told when jobs fail for good: the route `mail` and the route `chat`, each when it is set up.
    pub struct NotifyConfig in "jobs.notify" {
        /// The mail server. Not set, there is no route `mail`.
        mail_host: Option<String> = Unset, fixed;
        /// Its port. Not set, the usual one for the protection.
        mail_port: Option<u16> = Unset, fixed;
        /// How mail is protected on its way there.
        mail_protection: MailProtection = "starttls", fixed;
        /// Certificates of authorities to trust instead of the system's, PEM.
        mail_ca: Option<PathBuf> = Unset, fixed;
        /// The user that the mail server knows us by.
        mail_user: Option<String> = Unset, fixed;
        /// That user's password.
        mail_password: Option<Secret> = Unset, fixed;
        /// Whom mail is from.
        mail_from: Option<String> = Unset, fixed;
        /// Whom mail is for.
        mail_to: Vec<String> = [""; 0], fixed;
        /// Queues whose failures are mailed; all when empty.
        mail_queues: Vec<String> = [""; 0], fixed;
        /// A URL that takes `{"text": ...}`, as Slack's incoming webhooks do. Not set, there is no route `chat`.
        chat_url: Option<Secret> = Unset, fixed;
        /// Queues whose failures go there; all when empty.
        chat_queues: Vec<String> = [""; 0], fixed;
        /// How long failures are gathered before the first word of them.
        gather: Duration = "10s", fixed, range "0s" to "1h";
        /// How long after a word of some failures the next one of the same kind comes at the earliest.
        interval: Duration = "5m", fixed, range "1s" to "1d";
    }
}

impl WebhooksConfig {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.allowed().map(drop)
    }

    fn allowed(&self) -> anyhow::Result<Allow> {
        let allow = Allow::parse(self.allow.iter().map(String::as_str));
        allow.context("`jobs.webhooks.allow` cannot be used")
    }

    fn client(&self) -> anyhow::Result<Client> {
        let limits = Limits {
            total: self.timeout,
            https_only: self.https_only,
            ..Limits::default()
        };
        let client = Client::new(self.allowed()?, limits, self.ca.as_deref());
        client.map_err(|why| anyhow!("webhooks cannot be sent: {why}; set jobs.webhooks.ca"))
    }

    fn deliveries(&self) -> webhook::Config {
        webhook::Config {
            concurrency: self.concurrency,
            per_target: self.per_target,
            // What a killed server had taken is due again when its try would be long over.
            lease: self.timeout * 3,
            body: BodyConfig {
                bytes_max: self.body_max.as_usize(),
                public_url: self.public_url.clone(),
            },
            ..webhook::Config::default()
        }
    }
}

impl NotifyConfig {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.mail_host.is_none() || (self.mail_from.is_some() && !self.mail_to.is_empty()),
            "`jobs.notify.mail_host` is set, so `mail_from` and `mail_to` are needed as well"
        );
        Ok(())
    }

    fn routes(&self) -> Vec<RouteConfig> {
        let mut routes = Vec::new();
        if let (Some(host), Some(from)) = (&self.mail_host, &self.mail_from) {
            let mail = MailConfig {
                host: host.clone(),
                port: self.mail_port,
                tls: match self.mail_protection {
                    MailProtection::StartTls => MailTls::StartTls,
                    MailProtection::Tls => MailTls::Implicit,
                    MailProtection::Off => MailTls::None,
                },
                ca: self.mail_ca.clone(),
                user: self.mail_user.clone(),
                password: self.mail_password.as_ref().map(|one| one.reveal().to_owned()),
                from: from.clone(),
                to: self.mail_to.clone(),
            };
            routes.push(RouteConfig {
                name: "mail".to_owned(),
                queues: self.mail_queues.clone(),
                kind: RouteKind::Mail(mail),
            });
        }
        if let Some(url) = &self.chat_url {
            let chat = ChatConfig {
                url: url.reveal().to_owned(),
                ca: None,
            };
            routes.push(RouteConfig {
                name: "chat".to_owned(),
                queues: self.chat_queues.clone(),
                kind: RouteKind::Chat(chat),
            });
        }
        routes
    }
}

/// Everything that goes out.
pub(super) struct Outgoing {
    jobs: Jobs,
    deliverer: Arc<Deliverer>,
    notifier: Notifier,
}

impl Outgoing {
    pub(super) fn new(
        jobs: &Jobs,
        webhooks: &WebhooksConfig,
        notify: &NotifyConfig,
    ) -> anyhow::Result<Outgoing> {
        let store = Arc::clone(jobs.store());
        let deliverer = Deliverer::new(Arc::clone(&store), webhooks.client()?, webhooks.deliveries());
        let config = Config {
            routes: notify.routes(),
            timing: Timing {
                gather: notify.gather,
                interval: notify.interval,
            },
            public_url: webhooks.public_url.clone(),
            ..Config::default()
        };
        Ok(Outgoing {
            jobs: jobs.clone(),
            deliverer: Arc::new(deliverer),
            notifier: Notifier::new(store, config).context("[jobs.notify] cannot be used")?,
        })
    }

    /// Returns the reader of the statistics.
    pub(super) fn gauges(&self) -> StatsReader {
        StatsReader::new(&self.jobs, &self.deliverer, &self.notifier)
    }

    /// Deliveries, secrets and notices over HTTP; who may is asked of the jobs' API.
    pub(super) fn routes(&self, api: &Api) -> Router {
        nagaya_deliver::api::routes(nagaya_deliver::api::Api {
            store: Arc::clone(self.jobs.store()),
            authorize: Arc::new(Door(api.clone())),
            notifier: self.notifier.clone(),
        })
    }

    /// Delivers and notifies until told to stop.
    pub(super) async fn run(self, jobs: Jobs, stop: CancellationToken) {
        let deliverer = Arc::clone(&self.deliverer);
        tokio::join!(
            deliverer.wake_with(&jobs, stop.clone()),
            self.deliverer.run(stop.clone()),
            self.notifier.run(stop),
        );
    }
}

/// Authenticates callers through the jobs API.
struct Door(Api);

impl Authorize for Door {
    fn authorize<'a>(
        &'a self,
        headers: &'a HeaderMap,
        permission: Permission,
    ) -> BoxFuture<'a, Result<Principal, Response>> {
        let permission = match permission {
            Permission::Read => nagaya_jobs_api::Permission::Read,
            Permission::Enqueue => nagaya_jobs_api::Permission::Enqueue,
            Permission::Admin => nagaya_jobs_api::Permission::Admin,
        };
        Box::pin(async move {
            let principal = self.0.admit(headers, permission).await?;
            Ok(Principal {
                tenant: principal.tenant,
                is_admin: principal.is_admin,
                queues: principal.queues,
            })
        })
    }
}
