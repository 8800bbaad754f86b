//! Notifications by mail.

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

use super::config::{MailConfig, MailTls};
use super::message_text::Message;

/// How long the mail server may take for each reply.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Mail {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl Mail {
    pub(super) fn open(config: &MailConfig) -> Result<Mail, String> {
        let address = |text: &String| {
            text.parse::<Mailbox>()
                .map_err(|error| format!("{text} is no mail address: {error}"))
        };
        if config.to.is_empty() {
            return Err("needs somebody to write to".to_owned());
        }
        let usual_port = match config.tls {
            MailTls::StartTls => 587,
            MailTls::Implicit => 465,
            MailTls::None => 25,
        };
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&config.host)
            .port(config.port.unwrap_or(usual_port))
            .timeout(Some(TIMEOUT))
            .tls(tls(config)?);
        if let (Some(user), Some(password)) = (&config.user, &config.password) {
            transport = transport.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(Mail {
            transport: transport.build(),
            from: address(&config.from)?,
            to: config.to.iter().map(address).collect::<Result<_, _>>()?,
        })
    }

    pub(super) async fn send(&self, message: &Message) -> Result<(), String> {
        let mut mail = lettre::Message::builder()
            .from(self.from.clone())
            .subject(format!("[nagaya] {}", message.subject))
            .header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            mail = mail.to(to.clone());
        }
        let mail = mail
            .body(message.text.clone())
            .map_err(|error| error.to_string())?;
        self.transport
            .send(mail)
            .await
            .map(drop)
            .map_err(|error| explain(&error))
    }
}

fn tls(config: &MailConfig) -> Result<Tls, String> {
    let parameters = || {
        let mut builder = TlsParameters::builder(config.host.clone());
        if let Some(path) = &config.ca {
            let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let certificate = Certificate::from_pem(&pem).map_err(|error| error.to_string())?;
            builder = builder
                .certificate_store(CertificateStore::None)
                .add_root_certificate(certificate);
        }
        builder.build_rustls().map_err(|error| error.to_string())
    };
    match config.tls {
        MailTls::StartTls => parameters().map(Tls::Required),
        MailTls::Implicit => parameters().map(Tls::Wrapper),
        MailTls::None => Ok(Tls::None),
    }
}

fn explain(error: &lettre::transport::smtp::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
