//! The options of `serve` for sessions, tokens and the limits of accounts: one for each number of
//! [`Settings`], with its default.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use marmota_auth::Settings;

use crate::command::serve::option_values::{days, hours, minutes, positive};

/// The options of sessions. They have an effect with `--auth`.
#[derive(Args)]
#[command(next_help_heading = "Sessions and accounts")]
pub(crate) struct SessionOptions {
    /// The time after which an unused session expires
    #[arg(long, value_name = "MINUTES", default_value_t = 480, value_parser = positive::<u64>)]
    session_idle_minutes: u64,
    /// The maximum duration of a session, also of one in use
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = positive::<u64>)]
    session_age_max_days: u64,
    /// A login ends the user's other sessions
    #[arg(long)]
    one_session: bool,
    /// The number of sessions and of keys of a user; a login above it ends the oldest session
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = positive::<usize>)]
    sessions_max: usize,
    /// The time for which a session is trusted without reading the database; 0 reads it for each
    /// request
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    session_cache_ttl_s: u64,
    /// The time for which a JWT is valid, at most as long as its session
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = positive::<u64>)]
    jwt_age_minutes: u64,
    /// A file with the secret that signs JWTs, at least 32 bytes without the end of the line: for
    /// several processes, or for JWTs that survive a restart. Default: a random secret
    #[arg(long, value_name = "FILE")]
    jwt_secret_file: Option<PathBuf>,
    /// The time for which a one-time token of an administrator is valid
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = positive::<u64>)]
    token_age_hours: u64,
    /// The number of failed logins of an account from one address in --login-attempts-minutes
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = positive::<u32>)]
    login_attempts_max: u32,
    /// The time in which those are counted
    #[arg(long, value_name = "MINUTES", default_value_t = 15, value_parser = positive::<u64>)]
    login_attempts_minutes: u64,
    /// The time for which a link in a mail is valid; one that starts a session at most 15 minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = positive::<u64>)]
    link_age_minutes: u64,
    /// The time for which an invitation is valid
    #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = positive::<u64>)]
    invitation_age_days: u64,
    /// The number of mails to one address that clients may request in --login-attempts-minutes
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = positive::<u32>)]
    mails_max: u32,
    /// The number of security events that are kept; 0 keeps none
    #[arg(long, value_name = "COUNT", default_value_t = 100_000)]
    security_events_max: u64,
}

impl SessionOptions {
    /// Returns the settings of accounts with these options.
    ///
    /// # Errors
    /// A file of the secret that cannot be read.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        let settings = Settings::default()
            .session_idle(minutes(self.session_idle_minutes))
            .session_age_max(days(self.session_age_max_days))
            .one_session(self.one_session)
            .sessions_max(self.sessions_max)
            .cache_ttl(Duration::from_secs(self.session_cache_ttl_s))
            .jwt_age(minutes(self.jwt_age_minutes))
            .token_age(hours(self.token_age_hours))
            .attempts(self.login_attempts_max, minutes(self.login_attempts_minutes))
            .link_age(minutes(self.link_age_minutes))
            .invitation_age(days(self.invitation_age_days))
            .mails_max(self.mails_max)
            .events_max(self.security_events_max);
        let Some(path) = &self.jwt_secret_file else { return Ok(settings) };
        let mut secret = std::fs::read(path).map_err(|error| {
            format!("--jwt-secret-file: cannot read {}: {error}", path.display())
        })?;
        while secret.last().is_some_and(u8::is_ascii_whitespace) {
            secret.pop();
        }
        Ok(settings.jwt_secret(secret))
    }
}
