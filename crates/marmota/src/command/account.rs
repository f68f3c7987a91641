//! `user`, `group` and `key`: the accounts of a database, for operators.
//!
//! ```text
//! $ people user add ada --group staff
//! ada can set a password with the token mst_1f…, within 24 hours
//! $ people user list
//! 1  admin  administrator
//! 2  ada    staff
//! ```
//!
//! | command | action | what it does |
//! |---|---|---|
//! | `user` | `list` | a line or an object for each user |
//! | | `add`, `reset` | prints a one-time token, with which the user sets their password |
//! | | `groups` | replaces the groups of a user |
//! | | `disable`, `enable` | refuses and accepts the user's logins, sessions and keys |
//! | | `remove` | deletes the user, their sessions and keys |
//! | `group` | `list` | a line or an object for each group, with its rights |
//! | | `set`, `remove` | adds, replaces and deletes a group |
//! | `key` | `list` | a line or an object for each key, without the key |
//! | | `add` | prints a new key, which is not stored in clear |
//! | | `revoke` | makes a key invalid |
//!
//! The last administrator who can log in can be neither disabled nor removed.
//!
//! The JSON of a user has these members; that of a group `id`, `name` and `grants`, and that of a key
//! `id`, `name`, `created_at` and `ends_at`:
//!
//! | member | value |
//! |---|---|
//! | `id`, `name` | a number and a text |
//! | `groups` | names of groups |
//! | `is_admin`, `is_disabled`, `has_password` | true or false |
//! | `created_at` | a time |
//!
//! A program with an application file also stores the groups of the file, as `serve` does.
//!
//! A running server sees the changes: at once on PostgreSQL, otherwise with the next request that checks
//! the account again.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use marmota_auth::{Auth, models};
use marmota_model::{Error, ErrorKind, Result};
use marmota_store::Store;
use marmota_store::rights::Grant;
use serde_json::{Value, json};

use super::{Command, Database, Done, JsonOutput, aligned};

/// Shows and changes the users of the database
///
/// A new user gets no password: they set it themselves, with the token that `add` prints. So no
/// password is in the history of a shell. The token is valid for 24 hours, and once.
#[derive(Args)]
pub(super) struct User {
    #[command(flatten)]
    database: Database,
    #[command(subcommand)]
    action: UserAction,
}

#[derive(Subcommand)]
enum UserAction {
    /// Lists the users
    List {
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Adds a user, and prints the token with which they set their password
    ///
    /// The user sends the name, the token and the password to /api/auth/set-password.
    Add {
        /// The login name
        name: String,
        /// A group of the user; may be repeated
        #[arg(long, value_name = "NAME")]
        group: Vec<String>,
        /// Make the user an administrator
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Prints a new token with which a user sets their password
    ///
    /// The present password stays valid until then. Use it for a forgotten password, and for the
    /// first administrator, whose name is `admin`.
    Reset {
        /// The login name
        name: String,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Replaces the groups of a user
    Groups {
        /// The login name
        name: String,
        /// The names of all groups of the user; none removes the user from all groups
        groups: Vec<String>,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Ends the user's sessions, and refuses logins and keys
    ///
    /// The rows of the user, and the entries in the history by them, are not changed.
    Disable {
        /// The login name
        name: String,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Undoes `disable`
    Enable {
        /// The login name
        name: String,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Removes a user, their sessions and keys
    Remove {
        /// The login name
        name: String,
        #[command(flatten)]
        output: JsonOutput,
    },
}

/// Shows and changes the groups of users of the database
///
/// Groups that the application file has are set by the file at the next start of `serve`.
#[derive(Args)]
pub(super) struct Group {
    #[command(flatten)]
    database: Database,
    #[command(subcommand)]
    action: GroupAction,
}

#[derive(Subcommand)]
enum GroupAction {
    /// Lists the groups with their rights
    List {
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Adds a group, or replaces its rights
    ///
    /// Each grant has a table (`*` for all), rights (read, history, insert, update, delete, refer)
    /// and, if it does not apply to all rows, a rule: a filter that selects rows.
    Set {
        /// The name of the group
        name: String,
        /// Its rights as JSON: [{"table":"note","rights":["read"],"rule":"owner = @user.id"}]
        grants: String,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Removes a group; its members stay
    Remove {
        /// The name of the group
        name: String,
        #[command(flatten)]
        output: JsonOutput,
    },
}

/// Shows and changes the keys of users, with which programs log in
///
/// A program sends its key as `Authorization: Bearer KEY`, and has the rights of the user.
#[derive(Args)]
pub(super) struct Key {
    #[command(flatten)]
    database: Database,
    #[command(subcommand)]
    action: KeyAction,
}

#[derive(Subcommand)]
enum KeyAction {
    /// Lists the keys of a user
    List {
        /// The login name of the user
        user: String,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Adds a key with the rights of a user, and prints it; it cannot be shown again
    Add {
        /// The login name of the user
        user: String,
        /// A name that describes the purpose of the key
        name: String,
        /// The number of days after which it expires; if not given, it does not expire
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=36_500))]
        days: Option<u64>,
        #[command(flatten)]
        output: JsonOutput,
    },
    /// Revokes a key of a user
    Revoke {
        /// The login name of the user
        user: String,
        /// The number of the key
        id: i64,
        #[command(flatten)]
        output: JsonOutput,
    },
}

impl User {
    /// Executes the action, and prints its result.
    pub(super) fn run(&self, command: &Command) -> Done {
        with_accounts(command, &self.database, |auth| {
            let named = |name: &str| user_id(auth, name);
            match &self.action {
                UserAction::List { output } => list_users(auth, *output)?,
                UserAction::Add { name, group, admin, output } => {
                    let (_, token) = auth.add_user(name, group, *admin)?;
                    print_token(*output, name, &token)?;
                }
                UserAction::Reset { name, output } => {
                    let token = auth.new_token(named(name)?)?;
                    print_token(*output, name, &token)?;
                }
                UserAction::Groups { name, groups, output } => {
                    auth.change_user(named(name)?, Some(groups), None, None)?;
                    output.report(
                        || json!({ "name": name, "groups": groups }),
                        || match groups.is_empty() {
                            true => format!("{name} has no groups"),
                            false => format!("{name} has the groups {}", groups.join(", ")),
                        },
                    )?;
                }
                UserAction::Disable { name, output } => {
                    auth.change_user(named(name)?, None, None, Some(true))?;
                    let json = || json!({ "name": name, "is_disabled": true });
                    output.report(json, || format!("{name} is disabled"))?;
                }
                UserAction::Enable { name, output } => {
                    auth.change_user(named(name)?, None, None, Some(false))?;
                    let json = || json!({ "name": name, "is_disabled": false });
                    output.report(json, || format!("{name} is enabled"))?;
                }
                UserAction::Remove { name, output } => {
                    auth.remove_user(named(name)?)?;
                    output.report(|| removed(name), || format!("{name} is removed"))?;
                }
            }
            Ok(())
        })
    }
}

impl Group {
    /// Executes the action, and prints its result.
    pub(super) fn run(&self, command: &Command) -> Done {
        with_accounts(command, &self.database, |auth| {
            match &self.action {
                GroupAction::List { output } => {
                    let groups = auth.groups()?;
                    output.report(
                        || {
                            let rows = groups.iter().map(|group| {
                                json!({
                                    "id": group.id,
                                    "name": group.name,
                                    "grants": group.grants.0,
                                })
                            });
                            rows.collect()
                        },
                        || {
                            aligned(groups.iter().map(|group| {
                                let grants = group.grants.0.iter().map(grant_text);
                                [group.name.clone(), grants.collect::<Vec<_>>().join("; ")]
                            }))
                        },
                    )?;
                }
                GroupAction::Set { name, grants, output } => {
                    let grants: Vec<Grant> = serde_json::from_str(grants).map_err(|error| {
                        format!(
                            "the rights are not a JSON array of grants, such as \
                             [{{\"table\":\"note\",\"rights\":[\"read\"]}}]: {error}"
                        )
                    })?;
                    auth.set_group(name, &grants)?;
                    let json = || json!({ "name": name, "grants": grants });
                    output.report(json, || format!("{name} is set"))?;
                }
                GroupAction::Remove { name, output } => {
                    auth.remove_group(name)?;
                    output.report(|| removed(name), || format!("{name} is removed"))?;
                }
            }
            Ok(())
        })
    }
}

impl Key {
    /// Executes the action, and prints its result.
    pub(super) fn run(&self, command: &Command) -> Done {
        with_accounts(command, &self.database, |auth| {
            match &self.action {
                KeyAction::List { user, output } => {
                    let keys = auth.keys(user_id(auth, user)?)?;
                    output.report(
                        || keys.iter().map(|key| json!(key)).collect(),
                        || {
                            aligned(keys.iter().map(|key| {
                                let ends = key.ends_at.map_or_else(
                                    || "does not expire".to_owned(),
                                    |ends_at| format!("expires {ends_at}"),
                                );
                                let made = key.created_at.to_string();
                                [key.id.to_string(), made, key.name.clone(), ends]
                            }))
                        },
                    )?;
                }
                KeyAction::Add { user, name, days, output } => {
                    let age = days.map(|days| Duration::from_secs(days * 24 * 60 * 60));
                    let (id, key) = auth.make_key_for(user_id(auth, user)?, name, age)?;
                    output.report(
                        || json!({ "user": user, "id": id, "name": name, "key": key }),
                        || key.clone(),
                    )?;
                }
                KeyAction::Revoke { user, id, output } => {
                    auth.revoke_key(user_id(auth, user)?, *id)?;
                    output.report(
                        || json!({ "user": user, "id": id, "is_revoked": true }),
                        || format!("key {id} of {user} is revoked"),
                    )?;
                }
            }
            Ok(())
        })
    }
}

/// The result of an action; the subcommand ends with success after it.
type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

/// Opens the accounts of the database, and closes the store after the action.
fn with_accounts(
    command: &Command,
    database: &Database,
    action: impl FnOnce(&Auth) -> Outcome,
) -> Done {
    let store = models(command.builder(command.url(database))?).open()?;
    let auth = open_accounts(command, &store)?;
    action(&auth)?;
    drop(auth);
    store.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the accounts, with the groups of the application file if there is one.
#[cfg(feature = "app")]
pub(super) fn open_accounts(command: &Command, store: &Store) -> Result<Auth> {
    command.files.open_accounts(store, marmota_auth::Settings::default())
}

#[cfg(not(feature = "app"))]
pub(super) fn open_accounts(_: &Command, store: &Store) -> Result<Auth> {
    Auth::new(store, marmota_auth::Settings::default())
}

/// Returns the id of a user.
pub(super) fn user_id(auth: &Auth, name: &str) -> Result<i64> {
    let users = auth.users()?;
    users.iter().find(|user| user.name == name).map(|user| user.id).ok_or_else(|| {
        let message = format!("there is no user `{name}`; `user list` shows the users");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// Prints all users: an object, or a line with the number, the name, groups and notes.
fn list_users(auth: &Auth, output: JsonOutput) -> Outcome {
    let users = auth.users()?;
    let json = || {
        let rows = users.iter().map(|user| {
            json!({
                "id": user.id,
                "name": user.name,
                "groups": user.groups.0,
                "is_admin": user.is_admin,
                "is_disabled": user.is_disabled,
                "has_password": user.has_password(),
                "created_at": user.created_at,
            })
        });
        rows.collect()
    };
    let text = || {
        aligned(users.iter().map(|user| {
            let notes = [
                (user.is_admin, "administrator"),
                (user.is_disabled, "disabled"),
                (!user.has_password(), "no password yet"),
            ];
            let notes = notes.into_iter().filter_map(|(applies, note)| applies.then_some(note));
            let words: Vec<&str> = user.groups.0.iter().map(String::as_str).chain(notes).collect();
            [format!("{:>4}", user.id), user.name.clone(), words.join(", ")]
        }))
    };
    Ok(output.report(json, text)?)
}

/// Prints a token and its purpose.
fn print_token(output: JsonOutput, name: &str, token: &str) -> Outcome {
    let json = || json!({ "name": name, "token": token, "valid_hours": 24 });
    let text = || format!("{name} can set a password with the token {token}, within 24 hours");
    Ok(output.report(json, text)?)
}

/// Returns the JSON of a user or group that was removed.
fn removed(name: &str) -> Value {
    json!({ "name": name, "is_removed": true })
}

/// Returns a grant in one line: `note: read, update if owner = @user.id`.
///
/// It is for people; `--json` prints the grant as it is stored.
fn grant_text(grant: &Grant) -> String {
    let rights: Vec<&str> = grant.rights.iter().map(|right| right.name()).collect();
    let rule = grant.rule.as_ref().map(|rule| format!(" if {rule}")).unwrap_or_default();
    let fields = match (&grant.fields, &*grant.except) {
        (Some(fields), []) => format!(" of {}", fields.join(", ")),
        (Some(fields), except) => format!(" of {} except {}", fields.join(", "), except.join(", ")),
        (None, []) => String::new(),
        (None, except) => format!(" except {}", except.join(", ")),
    };
    format!("{}: {}{fields}{rule}", grant.table, rights.join(", "))
}
