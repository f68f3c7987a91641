//! The files of the pages, compiled into the program.

/// A file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asset {
    /// The path of the URL.
    pub(crate) path: &'static str,
    /// The media type.
    pub(crate) media_type: &'static str,
    /// The content.
    pub(crate) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// A file below `/admin/assets/`.
macro_rules! asset {
    ($media_type:expr, $name:literal) => {
        Asset {
            path: concat!("/admin/assets/", $name),
            media_type: $media_type,
            bytes: include_bytes!(concat!("../assets/", $name)),
        }
    };
}

/// A page, at a path of its own.
macro_rules! page {
    ($path:literal, $name:literal) => {
        Asset { path: $path, media_type: HTML, bytes: include_bytes!(concat!("../assets/", $name)) }
    };
}

/// All files. The first of a path is served.
pub(crate) const ASSETS: &[Asset] = &[
    page!("/", "start.html"),
    page!("/admin", "admin.html"),
    page!("/docs", "docs.html"),
    page!("/account", "account.html"),
    asset!("text/css; charset=utf-8", "style.css"),
    asset!("image/svg+xml", "icon.svg"),
    asset!(SCRIPT, "access.js"),
    asset!(SCRIPT, "account.js"),
    asset!(SCRIPT, "accounts.js"),
    asset!(SCRIPT, "admin.js"),
    asset!(SCRIPT, "api.js"),
    asset!(SCRIPT, "backups.js"),
    asset!(SCRIPT, "csv.js"),
    asset!(SCRIPT, "dom.js"),
    asset!(SCRIPT, "fields.js"),
    asset!(SCRIPT, "filter.js"),
    asset!(SCRIPT, "grid.js"),
    asset!(SCRIPT, "jobs.js"),
    asset!(SCRIPT, "json.js"),
    asset!(SCRIPT, "passkeys.js"),
    asset!(SCRIPT, "log.js"),
    asset!(SCRIPT, "metrics.js"),
    asset!(SCRIPT, "row.js"),
    asset!(SCRIPT, "schema.js"),
    asset!(SCRIPT, "sign-in.js"),
    asset!(SCRIPT, "snippets.js"),
    asset!(SCRIPT, "sql.js"),
    asset!(SCRIPT, "start.js"),
    asset!(SCRIPT, "texts.js"),
    asset!(SCRIPT, "events.js"),
    asset!(SCRIPT, "statistics.js"),
    asset!(SCRIPT, "webhooks.js"),
    asset!(SCRIPT, "docs.js"),
];

/// The paths of the files of `/account`. The other pages do not need the first ones.
const ACCOUNT: [&str; 10] = [
    "/account",
    "/admin/assets/account.js",
    "/admin/assets/style.css",
    "/admin/assets/icon.svg",
    "/admin/assets/api.js",
    "/admin/assets/dom.js",
    "/admin/assets/json.js",
    "/admin/assets/passkeys.js",
    "/admin/assets/fields.js",
    "/admin/assets/texts.js",
];

/// The files of `/account`.
pub(crate) fn account_assets() -> impl Iterator<Item = &'static Asset> {
    ASSETS.iter().filter(|asset| ACCOUNT.contains(&asset.path))
}

/// The files of `/`, `/admin` and `/docs`.
pub(crate) fn admin_assets() -> impl Iterator<Item = &'static Asset> {
    ASSETS.iter().filter(|asset| !ACCOUNT[..2].contains(&asset.path))
}
