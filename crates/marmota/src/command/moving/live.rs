//! `move --live`: a running server moves to another database while it serves.
//!
//! ```text
//! $ people move --live --to postgres://localhost/people
//! copied 120,000 rows; the databases were compared: 120,031 rows, 0 different
//! $ people move --live --flip
//! postgres://localhost/people is the primary; requests waited for 41 ms
//! $ people move --live --end
//! ```

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use marmota_model::text::counted;
use marmota_store::pair;
use serde_json::{Value, json};

use super::bar;
use crate::command::server_api::ServerApi;
use crate::command::{Command, Done, JsonOutput};

/// The interval in which the state is read.
const POLL: Duration = Duration::from_millis(200);

/// The options of a live move.
#[derive(Args)]
pub(super) struct LiveOptions {
    /// Moves a running server: fills the database of --to, follows, and compares. Without --to and
    /// other actions, prints the state
    #[arg(long)]
    live: bool,
    /// With --live: makes the other database the primary, once it is filled and compared. A second
    /// flip leads back
    #[arg(long, requires = "live", conflicts_with_all = ["end", "compare"])]
    flip: bool,
    /// With --live: compares all rows of both databases again
    #[arg(long, requires = "live", conflicts_with = "end")]
    compare: bool,
    /// With --live and --to: the share of reads, from 0 to 1, that are executed on both databases and
    /// compared. Repeat --to to change it
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "to")]
    compare_reads: f64,
    /// With --live: ends the move. The primary stays the database of the server
    #[arg(long, requires = "live")]
    end: bool,
    /// Ends a flip that was interrupted: makes the database with all commits the primary, of those at
    /// --from and --to. No program may have them open
    #[arg(long, conflicts_with = "live")]
    settle: bool,
    /// With --live: the URL of the server; a path, if the API is not at `/api`
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// With --live: an API key or a session token of an administrator
    #[arg(long, value_name = "TOKEN", env = "MARMOTA_API_KEY", hide_env_values = true)]
    token: Option<String>,
}

impl LiveOptions {
    /// Returns true if the command concerns a live move.
    pub(super) const fn is_used(&self) -> bool {
        self.live || self.settle
    }

    /// Executes the command.
    pub(super) fn run(
        &self,
        command: &Command,
        from: Option<&str>,
        to: Option<&str>,
        output: &JsonOutput,
    ) -> Done {
        if self.settle {
            return settle(command, from, to, output);
        }
        if from.is_some() {
            return Err("--live moves the database of the server: leave --from out".into());
        }
        let api = ServerApi::new(&self.server, self.token.as_deref())?;
        let mut state = call(&api, "GET", "", None)?;
        if let Some(to) = to {
            let body = json!({ "to": to, "compare_reads": self.compare_reads });
            state = call(&api, "POST", "", Some(&body.to_string()))?;
        }
        if self.compare {
            state = call(&api, "POST", "/compare", None)?;
        }
        if self.flip || self.compare || to.is_some() {
            state = until_compared(&api, state)?;
        }
        if self.flip {
            state = call(&api, "POST", "/flip", None)?;
        }
        if self.end {
            state = call(&api, "DELETE", "", None)?;
        }
        let text = || match self.flip {
            true => {
                let (primary, pause) = (&state["primary"], &state["pause_ms"]);
                let primary = primary.as_str().unwrap_or_default();
                format!("{primary} is the primary; requests waited for {pause} ms")
            }
            false => text_of(&state),
        };
        output.report(|| state.clone(), text)?;
        let is_different = ["compared", "reads"]
            .iter()
            .any(|what| state[what]["different"].as_u64().is_some_and(|rows| rows > 0));
        Ok(if is_different { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Sends a request for the move. Returns its state.
fn call(api: &ServerApi, method: &str, path: &str, body: Option<&str>) -> Result<Value, String> {
    let answer = api.request(method, &format!("/-/move{path}"), body)?;
    match answer.status {
        200 => serde_json::from_str(&answer.body).map_err(|error| error.to_string()),
        _ => Err(api.refusal(&answer)),
    }
}

/// Waits until the other database is filled and was compared.
fn until_compared(api: &ServerApi, mut state: Value) -> Result<Value, String> {
    let bar = bar();
    loop {
        match state["state"].as_str().unwrap_or_default() {
            "filling" => {
                bar.set_length(state["rows_total"].as_u64().unwrap_or_default());
                bar.set_position(state["rows"].as_u64().unwrap_or_default());
                bar.set_message(state["table"].as_str().unwrap_or_default().to_owned());
            }
            "following" => match state["error"].as_str() {
                None if state["compared"].is_object() => break,
                None => bar.set_message("compares"),
                Some(error) => return Err(error.to_owned()),
            },
            "failed" => return Err(text_of(&state)),
            _ => {
                return Err("no move is in progress: name the new database with --to".to_owned());
            }
        }
        sleep(POLL);
        state = call(api, "GET", "", None)?;
    }
    bar.finish_and_clear();
    Ok(state)
}

/// Describes the state.
fn text_of(state: &Value) -> String {
    let text = |name: &str| state[name].as_str().unwrap_or_default();
    let (primary, secondary) = (text("primary"), text("secondary"));
    match text("state") {
        "none" => format!("{primary}: no move is in progress"),
        "interrupted" => format!(
            "{primary}: a move to {secondary} was interrupted: start it again with --to, or end it \
             with --end"
        ),
        "filling" => {
            format!(
                "{primary}: copied to {secondary}: {} of {}",
                state["rows"],
                count_of(&state["rows_total"], "row")
            )
        }
        "failed" => format!("{primary}: the move to {secondary} has failed: {}", text("error")),
        _ => {
            let mut line = format!(
                "{primary} is the primary; {secondary} lags by {} ({} ms)",
                count_of(&state["lag_commits"], "commit"),
                state["lag_ms"]
            );
            if let Some(compared) = state["compared"].as_object() {
                let (rows, different) = (&compared["rows"], &compared["different"]);
                line.push_str(&format!(
                    "; {} compared, {different} different",
                    count_of(rows, "row")
                ));
            }
            if let Some(reads) = state["reads"].as_object() {
                let (compared, different) = (&reads["compared"], &reads["different"]);
                let (failed, skipped) = (&reads["failed"], &reads["skipped"]);
                line.push_str(&format!(
                    "; {} compared, {different} different, {failed} failed, \
                     {skipped} skipped",
                    count_of(compared, "read")
                ));
            }
            for what in ["compared", "reads"] {
                let listed = state[what]["differences"].as_array().into_iter().flatten();
                for row in listed {
                    let text = |name: &str| row[name].as_str().unwrap_or_default();
                    let (table, key, what) = (text("table"), text("key"), text("what"));
                    line.push_str(&format!("\n{table} {key}: {what}"));
                }
            }
            if let Some(error) = state["error"].as_str() {
                line.push_str(&format!("\nerror: {error}"));
            }
            line
        }
    }
}

/// Ends a flip that was interrupted.
fn settle(command: &Command, from: Option<&str>, to: Option<&str>, output: &JsonOutput) -> Done {
    let (Some(from), Some(to)) = (from, to) else {
        return Err("name both databases with --from and --to".into());
    };
    let place = pair::settle(&[command.builder(from)?, command.builder(to)?])?;
    let primary = ["--from", "--to"][place];
    output.report(
        || json!({ "primary": primary }),
        || format!("the database of {primary} is the primary: start the server on it"),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a number in the state of a move with its noun.
fn count_of(count: &Value, noun: &str) -> String {
    counted(count.as_u64().unwrap_or_default(), noun)
}
