//! The routes of accounts ([`crate::account_routes`]) in an OpenAPI document.
//!
//! ```text
//! "/api/auth/keys/{named}": {
//!   "delete": {
//!     "operationId": "auth.keys.one.delete",
//!     "summary": "Revokes a key",
//!     "tags": ["auth"],
//!     "parameters": [{"name":"named","in":"path","required":true,"schema":{"type":"integer",…}}],
//!     "responses": {"204":{"description":"Done"},"default":…}
//!   }
//! }
//! ```
//!
//! The operations are in the document if the store has rights, in other words if the API has
//! logins. All of them are described for every caller: the routes themselves decide who may use
//! them.
//!
//! The routes are a table of constants instead of being derived from the router, because a route
//! does not have the schemas of its bodies. A test compares the table with the routes that answer.

use marmota_http::Method;
use marmota_web::OpenApi;
use serde_json::{Value, json};

use super::{answer, body, in_path};

/// The routes for callers who are not logged in.
const ANONYMOUS: [&str; 15] = [
    "/login",
    "/passkeys/challenge",
    "/passkeys/login",
    "/sign-in",
    "/sign-in/{named}",
    "/setup",
    "/set-password",
    "/options",
    "/sign-up",
    "/join",
    "/reset",
    "/reset-password",
    "/login-link",
    "/login-with-link",
    "/confirm-email",
];

/// Returns the schema of an object with these members; names that start with `?` are optional, and
/// all others are required.
///
/// The object permits additional members, so that a later version can add some without breaking the
/// clients that were generated from this one.
///
/// A schema without members permits any object.
fn object(members: &[(&str, Value)]) -> Value {
    let named = |name: &str| name.trim_start_matches('?').to_owned();
    let properties: serde_json::Map<String, Value> =
        members.iter().map(|(name, schema)| (named(name), schema.clone())).collect();
    let required: Vec<&str> =
        members.iter().map(|(name, _)| *name).filter(|name| !name.starts_with('?')).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Adds the routes of accounts under `base`, and the security schemes of logins: a bearer token, or
/// the cookie of a session.
///
/// Each route is a row of a table: method, path after `/auth`, summary, schema of the request's
/// body, and status with the schema of the response's body. From these follow:
///
/// - the `operationId`, from the words of the path and the method: `auth.keys.get`, and
///   `auth.keys.one.delete` for a path that ends with a parameter;
/// - the parameter of the path: a name for groups, an integer for users and keys;
/// - no security for the routes of [`ANONYMOUS`], whose callers are not authenticated yet.
///
/// ```text
/// "requestBody": {"required":true, "content": {"application/json": {"schema": {
///   "type": "object",
///   "properties": {"name":{"type":"string"},"password":{"type":"string"},"cookie":{"type":"boolean"}},
///   "required": ["name","password"]
/// }}}}
/// ```
///
/// The members that a route accepts or returns only sometimes are optional: `cookie` of a login
/// requests a cookie instead of a token, so `token` of its response may be missing.
pub(super) fn add(document: OpenApi, base: &str) -> OpenApi {
    let text = || json!({ "type": "string" });
    let flag = || json!({ "type": "boolean" });
    let id = || json!({ "type": "integer", "format": "int64" });
    let time = || json!({ "type": ["string", "null"], "format": "date-time" });
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let any = || json!({ "type": "array", "items": { "type": "object" } });
    let grants = || object(&[("grants", any())]);
    let user = object(&[
        ("id", id()),
        ("name", text()),
        ("email", json!({ "type": ["string", "null"] })),
        ("groups", texts()),
        ("is_admin", flag()),
        ("is_disabled", flag()),
        ("has_password", flag()),
        ("created_at", time()),
    ]);
    let me = object(&[
        ("id", id()),
        ("name", text()),
        ("email", json!({ "type": ["string", "null"] })),
        ("has_app", flag()),
        ("recovery_codes", json!({ "type": ["integer", "null"] })),
        ("session", json!({ "type": ["integer", "null"], "format": "int64" })),
        ("groups", texts()),
        ("is_admin", flag()),
        ("ends_at", time()),
        ("sessions", any()),
    ]);
    let optional = || json!({ "type": ["string", "null"] });
    // The JSON forms of WebAuthn.
    let web_authn = || json!({ "type": "object" });
    let login = object(&[
        ("name", text()),
        ("password", text()),
        ("?code", optional()),
        ("?passkey", web_authn()),
        ("?cookie", flag()),
    ]);
    let link_login = object(&[
        ("token", text()),
        ("?code", optional()),
        ("?passkey", web_authn()),
        ("?cookie", flag()),
    ]);
    let passkey = object(&[
        ("id", id()),
        ("name", text()),
        ("created_at", time()),
        ("used_at", json!({ "type": ["string", "null"], "format": "date-time" })),
    ]);
    let new_passkey = object(&[("name", text()), ("passkey", web_authn())]);
    let passkey_login = object(&[("passkey", web_authn()), ("?cookie", flag())]);
    let address = || object(&[("email", json!({ "type": "string", "format": "email" }))]);
    let join = object(&[("token", text()), ("?name", optional()), ("password", text())]);
    let new_address = object(&[("email", text()), ("password", text())]);
    let options = object(&[
        ("sign_up", json!({ "enum": ["closed", "invited", "domains", "open"] })),
        ("domains", texts()),
        ("mails", flag()),
        ("login_links", flag()),
        ("passkeys", flag()),
        ("providers", any()),
    ]);
    let invitation = object(&[("email", text()), ("?groups", texts()), ("?language", optional())]);
    let invited = object(&[
        ("id", id()),
        ("email", text()),
        ("groups", texts()),
        ("created_at", time()),
        ("ends_at", time()),
    ]);
    let begin = object(&[("?next", optional()), ("?add", flag())]);
    let finish = object(&[
        ("state", text()),
        ("provider_code", text()),
        ("?issuer", optional()),
        ("?code", optional()),
        ("?passkey", web_authn()),
        ("?cookie", flag()),
    ]);
    let signed_in =
        object(&[("?user", id()), ("?ends_at", time()), ("?token", text()), ("next", optional())]);
    let identity =
        object(&[("id", id()), ("issuer", text()), ("email", optional()), ("created_at", time())]);
    let event = object(&[
        ("id", id()),
        ("at", time()),
        ("kind", text()),
        ("user", json!({ "type": ["integer", "null"], "format": "int64" })),
        ("address", optional()),
        ("detail", json!({ "type": "object" })),
    ]);
    let code = || object(&[("code", text())]);
    let recovery = || object(&[("recovery_codes", texts())]);
    let logged_in = object(&[("user", id()), ("ends_at", time()), ("?token", text())]);
    let new_password = object(&[("name", text()), ("token", text()), ("password", text())]);
    let passwords = object(&[("old", text()), ("new", text())]);
    let new_key = object(&[("name", text()), ("?seconds", id())]);
    let new_user = object(&[("name", text()), ("?groups", texts()), ("?is_admin", flag())]);
    let change = object(&[("?groups", texts()), ("?is_admin", flag()), ("?is_disabled", flag())]);
    let list = |name: &str, of: Value| object(&[(name, json!({ "type": "array", "items": of }))]);
    let given = |schema| (201, Some(schema));
    let shown = |schema| (200, Some(schema));
    let mailed = || (202, None);
    let done = || (204, None);
    /// A route: method, path, summary, request body, and status with the response body.
    type Row<'r> = (Method, &'r str, &'r str, Option<Value>, (u16, Option<Value>));
    let routes: [Row<'_>; 54] = [
        (Method::Post, "/login", "Logs in", Some(login), shown(logged_in)),
        (Method::Get, "/setup", "Whether the first password has to be set", None, {
            shown(object(&[("needed", flag())]))
        }),
        (
            Method::Post,
            "/set-password",
            "Sets a password with a one-time token",
            Some(new_password),
            done(),
        ),
        (Method::Post, "/logout", "Ends this session", None, done()),
        (Method::Post, "/logout-everywhere", "Ends all sessions of the user", None, done()),
        (Method::Get, "/me", "The caller", None, shown(me)),
        (Method::Post, "/password", "Changes the password", Some(passwords), done()),
        (Method::Post, "/jwt", "A token that is checked without the database", None, {
            shown(object(&[("jwt", text()), ("ends_at", time())]))
        }),
        (Method::Get, "/keys", "The user's keys", None, shown(object(&[("keys", any())]))),
        (Method::Post, "/keys", "A key for a program, shown once", Some(new_key), {
            given(object(&[("id", id()), ("key", text())]))
        }),
        (Method::Delete, "/keys/{named}", "Revokes a key", None, done()),
        (Method::Get, "/users", "All users, for administrators", None, shown(list("users", user))),
        (Method::Post, "/users", "A new user, with a token to set the password", Some(new_user), {
            given(object(&[("id", id()), ("token", text())]))
        }),
        (Method::Patch, "/users/{named}", "Changes a user", Some(change), done()),
        (Method::Delete, "/users/{named}", "Removes a user", None, done()),
        (Method::Post, "/users/{named}/token", "Another token to set the password", None, {
            given(object(&[("token", text())]))
        }),
        (Method::Post, "/users/{named}/logout", "Ends all sessions of a user", None, done()),
        (Method::Get, "/groups", "All groups and their grants", None, {
            shown(list("groups", object(&[("name", text()), ("grants", any())])))
        }),
        (Method::Put, "/groups/{named}", "Sets what a group may do", Some(grants()), done()),
        (Method::Delete, "/groups/{named}", "Removes a group", None, done()),
        (Method::Get, "/options", "What a page for logins can offer", None, shown(options)),
        (Method::Post, "/sign-up", "Sends a link that makes an account", Some(address()), mailed()),
        (Method::Post, "/join", "Makes the account of a link", Some(join), {
            given(object(&[("user", id())]))
        }),
        (Method::Post, "/reset", "Sends a link for a new password", Some(address()), mailed()),
        (
            Method::Post,
            "/reset-password",
            "Sets a password with a link",
            Some(object(&[("token", text()), ("password", text())])),
            done(),
        ),
        (Method::Post, "/login-link", "Sends a link that logs in", Some(address()), mailed()),
        (Method::Post, "/login-with-link", "Logs in with a link", Some(link_login), {
            shown(object(&[("user", id()), ("ends_at", time()), ("?token", text())]))
        }),
        (Method::Post, "/email", "Sends a link to a new address", Some(new_address), mailed()),
        (
            Method::Post,
            "/confirm-email",
            "Makes the address of a link the user's",
            Some(object(&[("token", text())])),
            done(),
        ),
        (Method::Delete, "/sessions/{named}", "Ends a session", None, done()),
        (Method::Get, "/data", "The account, and the rows that refer to it", None, {
            shown(json!({ "type": "object" }))
        }),
        (
            Method::Post,
            "/delete-account",
            "Deletes the account",
            Some(object(&[("password", text()), ("?code", optional()), ("?passkey", web_authn())])),
            done(),
        ),
        (Method::Get, "/invitations", "The invitations, for administrators", None, {
            shown(list("invitations", invited))
        }),
        (Method::Post, "/invitations", "Invites a person", Some(invitation), {
            given(object(&[("id", id())]))
        }),
        (Method::Delete, "/invitations/{named}", "Revokes an invitation", None, done()),
        (
            Method::Post,
            "/totp",
            "Begins to set up an authenticator app",
            Some(object(&[("password", text())])),
            shown(object(&[("secret", text()), ("url", text()), ("qr_code", text())])),
        ),
        (Method::Post, "/totp/confirm", "Confirms the app", Some(code()), shown(recovery())),
        (
            Method::Post,
            "/totp/recovery-codes",
            "Replaces the recovery codes",
            Some(code()),
            shown(recovery()),
        ),
        (
            Method::Post,
            "/totp/remove",
            "Removes the app",
            Some(object(&[("password", text()), ("code", text())])),
            done(),
        ),
        (Method::Delete, "/users/{named}/totp", "Removes the app of a user", None, done()),
        (Method::Get, "/passkeys", "The caller's passkeys", None, {
            shown(list("passkeys", passkey))
        }),
        (Method::Post, "/passkeys", "Adds a passkey", Some(new_passkey), {
            given(object(&[
                ("id", id()),
                ("recovery_codes", json!({ "type": ["array", "null"], "items": text() })),
            ]))
        }),
        (Method::Post, "/passkeys/options", "Begins to add a passkey", None, shown(web_authn())),
        (
            Method::Patch,
            "/passkeys/{named}",
            "Changes the name of a passkey",
            Some(object(&[("name", text())])),
            done(),
        ),
        (Method::Delete, "/passkeys/{named}", "Removes a passkey", None, done()),
        (Method::Post, "/passkeys/challenge", "Begins to use a passkey", None, shown(web_authn())),
        (Method::Post, "/passkeys/login", "Logs in with a passkey", Some(passkey_login), {
            shown(object(&[("user", id()), ("ends_at", time()), ("?token", text())]))
        }),
        (Method::Delete, "/users/{named}/passkeys", "Removes the passkeys of a user", None, done()),
        (Method::Post, "/sign-in/{named}", "Begins a sign-in with a provider", Some(begin), {
            shown(object(&[("url", text())]))
        }),
        (Method::Post, "/sign-in", "Ends a sign-in with a provider", Some(finish), {
            shown(signed_in)
        }),
        (Method::Get, "/identities", "The caller's accounts of providers", None, {
            shown(list("identities", identity))
        }),
        (Method::Delete, "/identities/{named}", "Removes an account of a provider", None, done()),
        (
            Method::Post,
            "/step-up",
            "Authenticates the caller again",
            Some(object(&[
                ("?password", text()),
                ("?code", optional()),
                ("?passkey", web_authn()),
            ])),
            done(),
        ),
        (Method::Get, "/events", "The security events, for administrators", None, {
            shown(list("events", event))
        }),
    ];
    routes.into_iter().fold(document.secured(), |document, (method, path, what, sent, to)| {
        let verb = method.name().to_ascii_lowercase();
        let words: Vec<&str> =
            path.split('/').filter(|word| !word.is_empty() && *word != "{named}").collect();
        let one = if path.ends_with("{named}") { ".one" } else { "" };
        let (status, schema) = to;
        let answered = match &schema {
            Some(schema) => answer("Done", schema),
            None => json!({ "description": "Done" }),
        };
        let mut operation = json!({
            "operationId": format!("auth.{}{one}.{verb}", words.join(".")),
            "summary": what,
            "tags": ["auth"],
            "responses": { status.to_string(): answered },
        });
        if let Some(sent) = &sent {
            operation["requestBody"] = body(sent);
        }
        if path.contains("{named}") {
            let schema = match words[0] {
                "groups" | "sign-in" => text(),
                _ => id(),
            };
            operation["parameters"] = json!([in_path("named", &schema)]);
        }
        if path == "/events" {
            let parameter = |name: &str, schema: Value| json!({ "name": name, "in": "query", "schema": schema });
            operation["parameters"] = json!([parameter("before", id()), parameter("kind", text())]);
        }
        if ANONYMOUS.contains(&path) {
            // The caller is not authenticated yet.
            operation["security"] = json!([]);
        }
        document.operation(method, &format!("{base}/auth{path}"), operation)
    })
}
