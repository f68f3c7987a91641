//! The routes of `serve`: those of the program or REST, accounts, operators, and pages. They are made
//! again when the tables change.

use marmota_auth::Auth;
use marmota_http::Router;

#[cfg(all(feature = "admin", feature = "mail"))]
use super::accounts::AccountOptions;
use super::database::OpenDatabase;
#[cfg(feature = "app")]
use super::editing::{self, description, move_routes, sql_console};
use super::layers::LayerSlot;
use super::operators::Watch;
use super::options::Serve;
use crate::command::{Command, notice};
use crate::operations::Operations;

/// The channel to the main thread of a server whose tables or database can be changed.
#[cfg(feature = "app")]
type Events = std::sync::mpsc::Sender<editing::ServeEvent>;
#[cfg(not(feature = "app"))]
type Events = ();

/// What the routes of a server are made of, except for its database.
#[derive(Clone, Copy)]
pub(super) struct RouteParts<'a> {
    pub(super) command: &'a Command,
    /// The URL of the server.
    pub(super) url: &'a str,
    pub(super) watch: &'a Watch,
    pub(super) layers: &'a LayerSlot,
}

impl Serve {
    /// Returns the address of the page that sets the first administrator's password, as a part of a
    /// sentence. Browsers do not send the part after `#`, so the token is in no log.
    #[cfg(feature = "admin")]
    pub(super) fn setup_page(&self, url: &str, token: &str) -> String {
        match self.no_admin {
            true => String::new(),
            false => format!(" at\n  {url}/admin#/set-password/admin/{token}\nor with"),
        }
    }

    #[cfg(not(feature = "admin"))]
    #[allow(clippy::unused_self, reason = "it has a page with the feature")]
    pub(super) const fn setup_page(&self, _: &str, _: &str) -> &'static str {
        ""
    }

    /// Prints where the pages are, if there are any:
    ///
    /// ```text
    /// In a browser:
    ///   admin  http://127.0.0.1:8080/admin
    ///   docs   http://127.0.0.1:8080/docs
    ///   API    http://127.0.0.1:8080/api
    /// ```
    #[cfg(feature = "admin")]
    pub(super) fn greet(&self, routes: &Router, url: &str) {
        let pages = marmota_admin::AdminPages::of_routes(routes);
        if let Some(pages) = pages.filter(|_| !self.no_admin) {
            notice(format_args!(
                "In a browser:\n  admin  {url}/admin\n  docs   {url}/docs\n  API    {url}{}",
                pages.prefix()
            ));
        }
    }

    #[cfg(not(feature = "admin"))]
    #[allow(clippy::unused_self, reason = "it has pages with the feature")]
    pub(super) const fn greet(&self, _: &Router, _: &str) {}

    /// Returns all routes: those of the program or the REST API, with accounts if `--auth` is given,
    /// those for operators, and the pages. With `events`, administrators can change the tables.
    ///
    /// # Errors
    /// `--auth` on a program with custom routes; those authenticate their callers themselves.
    pub(super) fn routes(
        &self,
        parts: &RouteParts<'_>,
        database: &OpenDatabase,
        events: Option<&Events>,
    ) -> Result<Router, Box<dyn std::error::Error>> {
        let routes = match database.auth() {
            Some(auth) => self.routes_with_users(parts, database, auth, events),
            None => self.routes_without_users(parts, database),
        };
        let RouteParts { command, layers, .. } = *parts;
        // The pages have their own security headers.
        #[cfg(feature = "app")]
        let can_change = command.files.has_settings();
        #[cfg(not(feature = "app"))]
        let can_change = false;
        let routes =
            if can_change || layers.is_used() { routes.layer(layers.clone()) } else { routes };
        #[cfg(all(feature = "admin", feature = "mail"))]
        let routes = match database.auth() {
            Some(_) => with_account_pages(command, routes, &self.accounts)?,
            None => routes,
        };
        #[cfg(feature = "admin")]
        let routes = match self.no_admin {
            true => routes,
            false => with_pages(command, routes),
        };
        // Custom routes use the store as well.
        Ok(routes.local_database(database.store.capability().local_server.as_deref()))
    }

    /// Returns the routes with accounts.
    #[cfg_attr(not(feature = "app"), allow(unused_variables))]
    fn routes_with_users(
        &self,
        parts: &RouteParts<'_>,
        database: &OpenDatabase,
        auth: &Auth,
        events: Option<&Events>,
    ) -> Router {
        let (store, watch) = (&database.store, parts.watch);
        let operations = self.operations(parts, database).auth(auth);
        let document = operations.open_api();
        #[cfg(feature = "app")]
        let document = match self.has_sql(parts) {
            true => description::add_sql(document, store, self.sql_write),
            false => document,
        };
        #[cfg(feature = "app")]
        let has_app = parts.command.files.path().is_some();
        #[cfg(feature = "app")]
        let document = match (events, has_app) {
            (None, _) => document,
            (Some(_), false) => move_routes::add_to(document),
            (Some(_), true) => move_routes::add_to(description::add_app(document)),
        };
        let api = database.api(self, store).auth(auth).openapi(document);
        let routes = api.router().nest("", operations.router());
        let routes = match database.webhooks() {
            Some(webhooks) => routes.nest("", webhooks.router(Some(auth))),
            None => routes,
        };
        #[cfg(feature = "mcp")]
        let routes = self.mcp.add_to(routes, true, || database.api(self, store).auth(auth));
        #[cfg(feature = "app")]
        let routes = match self.has_sql(parts) {
            true => routes.nest("", sql_console::routes(auth, store, self.sql_write)),
            false => routes,
        };
        #[cfg(feature = "app")]
        let routes = match events {
            Some(events) => {
                let routes = routes.nest("", move_routes::routes(auth, events));
                match has_app {
                    true => routes.nest("", editing::routes(auth, events)),
                    false => routes,
                }
            }
            None => routes,
        };
        #[cfg(feature = "remote")]
        let routes = {
            let auth = auth.clone();
            let service = marmota_remote::Service::new(store);
            let service = service.authenticate(move |_, credential| auth.store_of(credential));
            routes.nest("", service.router())
        };
        watch.beside(routes, store, |state| state.auth(auth))
    }

    /// Returns true if administrators may use SQL.
    #[cfg(feature = "app")]
    const fn has_sql(&self, parts: &RouteParts<'_>) -> bool {
        !self.no_sql && parts.command.routes.is_none()
    }

    /// Returns the routes for administrators.
    fn operations(&self, parts: &RouteParts<'_>, database: &OpenDatabase) -> Operations {
        let operations = parts.watch.operations(Operations::new(&database.store));
        match database.backups() {
            Some(backups) => operations.backups(backups),
            None => operations,
        }
    }

    /// Returns the routes without accounts: only the diagnostics authenticate callers.
    fn routes_without_users(&self, parts: &RouteParts<'_>, database: &OpenDatabase) -> Router {
        let RouteParts { command, url, watch, .. } = *parts;
        if let Some(greeting) = watch.greeting(url) {
            notice(greeting);
        }
        let store = &database.store;
        let operations = self.operations(parts, database);
        let document = operations.open_api();
        let routes =
            command.routes_of(store, |store| database.api(self, store).openapi(document.clone()));
        let routes = match command.routes {
            Some(_) => routes,
            None => routes.nest("", operations.router()),
        };
        let routes = match database.webhooks().filter(|_| command.routes.is_none()) {
            Some(webhooks) => routes.nest("", webhooks.router(None)),
            None => routes,
        };
        #[cfg(feature = "mcp")]
        let routes = match command.routes.is_none() {
            true => self.mcp.add_to(routes, false, || database.api(self, store)),
            false => routes,
        };
        watch.beside(routes, store, |state| watch.admit(state))
    }
}

/// Adds the pages to routes with a REST API. It is found by its OpenAPI document, so it may be among
/// the routes of a program. Routes without one are returned unchanged.
#[cfg(feature = "admin")]
fn with_pages(command: &Command, routes: Router) -> Router {
    let Some(pages) = marmota_admin::AdminPages::of_routes(&routes) else { return routes };
    pages.title(program_name()).version(command.version).add_to(routes)
}

/// Adds the pages at `/account` to routes with accounts.
#[cfg(all(feature = "admin", feature = "mail"))]
fn with_account_pages(
    command: &Command,
    routes: Router,
    accounts: &AccountOptions,
) -> Result<Router, String> {
    let Some(pages) = marmota_admin::AdminPages::of_routes(&routes) else { return Ok(routes) };
    let pages = accounts.pages(pages.title(program_name()).version(command.version))?;
    Ok(pages.add_account_to(routes))
}

/// Returns the name of the program's file, which pages and mails show.
#[cfg(any(feature = "admin", feature = "mail"))]
pub(super) fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_stem()?.to_str());
    name.unwrap_or("Marmota").to_owned()
}
