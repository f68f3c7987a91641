//! [`AdminPages`]: the routes of the pages.

use std::hash::Hasher as _;

use marmota_http::{
    Compression, Endpoint, Flow, Method, Request, Response, Router, SecurityHeaders, Status,
};
use serde_json::json;

use crate::account_texts::AccountTexts;
use crate::assets::{Asset, account_assets, admin_assets};

/// The Content Security Policy of the pages: scripts, styles, images and requests only of the
/// server itself, nothing inline, no frames, and no text as HTML (Trusted Types).
///
/// ```
/// assert!(marmota_admin::POLICY.starts_with("default-src 'none'; script-src 'self';"));
/// ```
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                          img-src 'self'; connect-src 'self'; base-uri 'none'; \
                          form-action 'none'; frame-ancestors 'none'; \
                          require-trusted-types-for 'script'; trusted-types 'none'";

/// The path of the document with the settings of the pages.
const SETTINGS: &str = "/admin/assets/settings.json";
/// The path of the application's style for `/account`.
const STYLE: &str = "/account/style.css";
/// The path of the texts of `/account`.
const TEXTS: &str = "/account/texts.json";

/// The pages of a program with a REST API: `/`, `/admin` and `/docs`.
///
/// The pages are public; the API decides who may read and write. A program with the feature `admin`
/// and the command line has them already.
///
/// ```
/// use marmota_admin::AdminPages;
/// use marmota_http::{Request, Router, TestRequest};
///
/// // A router with a REST API at `/v1`, and a route of its own.
/// let router = Router::new()
///     .get("/", |_: Request| async { "Welcome" })
///     .get("/v1/openapi.json", |_: Request| async { "{}" });
/// let router = AdminPages::new("/v1").title("People").version("1.2.0").add_to(router);
///
/// assert!(router.call(TestRequest::get("/admin"))?.text().contains("<!doctype html>"));
/// assert!(router.call(TestRequest::get("/docs"))?.text().contains("<!doctype html>"));
/// // Routes of the program are kept.
/// assert_eq!(router.call(TestRequest::get("/"))?.text(), "Welcome");
/// # Ok::<(), marmota_http::CallError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AdminPages {
    prefix: String,
    title: String,
    version: String,
    account_style: String,
    account_texts: AccountTexts,
}

impl AdminPages {
    /// Creates the pages for the REST API with this prefix (`Api::prefix`).
    ///
    /// ```
    /// let pages = marmota_admin::AdminPages::new("/api");
    /// # let _ = pages;
    /// ```
    pub fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_end_matches('/').to_owned();
        Self {
            prefix,
            title: "Marmota".to_owned(),
            version: String::new(),
            account_style: String::new(),
            account_texts: AccountTexts::built_in(),
        }
    }

    /// Creates the pages for the REST API among these routes: the first one with an OpenAPI
    /// document, if its path has no parameters. Returns `None` if the routes have no such API.
    ///
    /// ```
    /// use marmota_admin::AdminPages;
    /// use marmota_http::{Request, Router};
    ///
    /// let router = Router::new().get("/v1/openapi.json", |_: Request| async { "{}" });
    /// assert!(AdminPages::of_routes(&router).is_some());
    /// assert!(AdminPages::of_routes(&Router::new()).is_none());
    /// ```
    #[must_use]
    pub fn of_routes(router: &Router) -> Option<Self> {
        let is_read = |method: Option<Method>| method == Some(Method::Get);
        let prefix = router
            .patterns()
            .filter(|(method, _)| is_read(*method))
            .find_map(|(_, pattern)| pattern.strip_suffix("/openapi.json"))?;
        // The API of tenants has several documents.
        (!prefix.contains('{')).then(|| Self::new(prefix))
    }

    /// Sets the name of the program. Default: `Marmota`.
    ///
    /// ```
    /// let pages = marmota_admin::AdminPages::new("/api").title("People");
    /// # let _ = pages;
    /// ```
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the version of the program, which the start page shows. Default: none.
    ///
    /// ```
    /// let pages = marmota_admin::AdminPages::new("/api").version(env!("CARGO_PKG_VERSION"));
    /// # let _ = pages;
    /// ```
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Returns the prefix of the REST API.
    ///
    /// ```
    /// assert_eq!(marmota_admin::AdminPages::new("/api/").prefix(), "/api");
    /// ```
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Sets a style sheet (CSS) for the pages at `/account`, which is applied after their own. Default:
    /// empty.
    ///
    /// ```
    /// let css = "body.account { --accent: #b91c1c }";
    /// let pages = marmota_admin::AdminPages::new("/api").account_style(css);
    /// # let _ = pages;
    /// ```
    pub fn account_style(mut self, css: impl Into<String>) -> Self {
        self.account_style = css.into();
        self
    }

    /// Adds a language to the pages for `/account`, or texts to one. Default: English and German. `language`
    /// is a code such as `fr`. `json` is an object of texts, by their English texts; those that are missing
    /// stay English. An error of the API is such a text, too, and so is the label of a field of the
    /// profile.
    ///
    /// ```
    /// let french = r#"{ "Sign in": "Se connecter", "Sign in to {title}": "Se connecter à {title}" }"#;
    /// let pages = marmota_admin::AdminPages::new("/api").account_texts("fr", french)?;
    /// # let _ = pages;
    /// assert!(marmota_admin::AdminPages::new("/api").account_texts("fr", "[]").is_err());
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// A message, for a code that is not one of a language, and for a text that is not such an object.
    pub fn account_texts(mut self, language: &str, json: &str) -> Result<Self, String> {
        self.account_texts.add(language, json)?;
        Ok(self)
    }

    /// Adds the pages `/`, `/admin` and `/docs` to a program's routes. A path that has a route already
    /// keeps it.
    pub fn add_to(&self, router: Router) -> Router {
        self.add(router, admin_assets(), None)
    }

    /// Adds the page `/account` to a program's routes, where people sign in and up, and change their
    /// accounts. A path that has a route already keeps it.
    ///
    /// ```
    /// use marmota_admin::AdminPages;
    /// use marmota_http::{Router, TestRequest};
    ///
    /// let router = AdminPages::new("/api").title("Shop").add_account_to(Router::new());
    /// assert!(router.call(TestRequest::get("/account"))?.text().contains("<!doctype html>"));
    /// # Ok::<(), marmota_http::CallError>(())
    /// ```
    pub fn add_account_to(&self, router: Router) -> Router {
        self.add(router, account_assets(), Some(&self.account_style))
    }

    fn add(
        &self,
        router: Router,
        assets: impl Iterator<Item = &'static Asset>,
        style: Option<&str>,
    ) -> Router {
        let mut pages = Router::new();
        for asset in assets.filter(|asset| !has(&router, asset.path)) {
            pages = pages.on(Method::Get, asset.path, endpoint(asset));
        }
        let made = [
            (SETTINGS, "application/json", Some(self.settings())),
            (STYLE, "text/css; charset=utf-8", style.map(str::to_owned)),
        ];
        for (path, media_type, text) in made {
            let Some(text) = text.filter(|_| !has(&router, path)) else { continue };
            pages = pages.direct(Method::Get, path, move |request, out| {
                let body = text.clone().into_bytes();
                out.respond(answer(request, media_type, &etag(&body), body));
                Flow::Done
            });
        }
        if style.is_some() && !has(&router, TEXTS) {
            let texts = self.account_texts.clone();
            pages = pages.direct(Method::Get, TEXTS, move |request: &Request, out| {
                let body = texts.document_for(request).to_string().into_bytes();
                let response = answer(request, "application/json", &etag(&body), body);
                out.respond(
                    response
                        .with_header("Vary", "Accept-Language")
                        .unwrap_or_else(|_| Response::from_status(Status::INTERNAL_SERVER_ERROR)),
                );
                Flow::Done
            });
        }
        let headers = SecurityHeaders::new().content_security_policy(POLICY);
        router.nest("", pages.layer(headers).layer(Compression::new()))
    }

    /// Returns the document with the settings.
    fn settings(&self) -> String {
        json!({ "api": self.prefix, "title": self.title, "version": self.version }).to_string()
    }
}

/// Returns true if a router has a route for exactly this path. For `/`, a route for all paths (a
/// folder of files) counts as well.
fn has(router: &Router, path: &str) -> bool {
    router.patterns().any(|(_, pattern)| {
        let pattern = if pattern.is_empty() { "/" } else { pattern };
        pattern == path || path == "/" && pattern.starts_with("/{") && pattern.ends_with(":path}")
    })
}

/// Returns the endpoint of a file. Its tag is computed once.
fn endpoint(asset: &'static Asset) -> Endpoint {
    let tag = etag(asset.bytes);
    Endpoint::direct(move |request: &Request, out: &mut _| {
        out.respond(answer(request, asset.media_type, &tag, asset.bytes));
        Flow::Done
    })
}

/// Returns a response with a file, or 304 for a client that has it. Browsers ask each time, so that
/// a new version of the program is seen at once.
fn answer(
    request: &Request,
    media_type: &'static str,
    tag: &str,
    body: impl Into<marmota_http::Body>,
) -> Response {
    let response = Response::with_body(media_type, body).with_etag(request, tag);
    let response = response.and_then(|response| response.with_header("Cache-Control", "no-cache"));
    response.unwrap_or_else(|_| Response::from_status(Status::INTERNAL_SERVER_ERROR))
}

/// Returns the strong entity tag of a file: a hash of its content, equal in each process.
fn etag(bytes: &[u8]) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    hash.write(bytes);
    format!("{:016x}-{:x}", hash.finish(), bytes.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests panic")]

    use marmota_http::TestRequest;

    use super::*;
    use crate::assets::ASSETS;

    fn router() -> Router {
        let pages = AdminPages::new("/api").title("A \"title\"").account_style("h1 {}");
        pages.add_account_to(pages.add_to(Router::new()))
    }

    #[test]
    fn a_file_has_a_strong_tag_and_is_sent_once() {
        let router = router();
        for asset in ASSETS {
            let first = router.call(TestRequest::get(asset.path)).unwrap();
            assert_eq!(first.status(), Status::OK, "{}", asset.path);
            assert_eq!(first.header("Content-Type"), Some(asset.media_type));
            assert_eq!(first.header("Content-Security-Policy"), Some(POLICY));
            let tag = first.header("ETag").unwrap().to_owned();
            assert!(tag.starts_with('"'), "{tag}");
            let again = TestRequest::get(asset.path).header("If-None-Match", tag);
            assert_eq!(router.call(again).unwrap().status(), Status::NOT_MODIFIED);
        }
    }

    #[test]
    fn the_files_are_small() {
        for asset in ASSETS {
            println!("{:6} {}", asset.bytes.len(), asset.path);
        }
        let total: usize = ASSETS.iter().map(|asset| asset.bytes.len()).sum();
        println!("{total:6} bytes, before compression");
        assert!(total < 200 * 1024, "{total}");
    }

    #[test]
    fn the_pages_of_accounts_stand_alone() {
        let router = AdminPages::new("/api").account_style("h1 {}").add_account_to(Router::new());
        for asset in account_assets() {
            let answer = router.call(TestRequest::get(asset.path)).unwrap();
            assert_eq!(answer.status(), Status::OK, "{}", asset.path);
        }
        assert_eq!(router.call(TestRequest::get(STYLE)).unwrap().text(), "h1 {}");
        assert_eq!(router.call(TestRequest::get("/admin")).unwrap().status(), Status::NOT_FOUND);
        // All that the page imports is there.
        for asset in account_assets().filter(|asset| asset.path.ends_with(".js")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for name in text.split("from './").skip(1).filter_map(|rest| rest.split('\'').next()) {
                let path = format!("/admin/assets/{name}");
                assert!(account_assets().any(|asset| asset.path == path), "{path}");
            }
        }
    }

    #[test]
    fn texts_are_those_of_the_language() {
        let french = r#"{"Sign in":"Se connecter"}"#;
        let pages = AdminPages::new("/api").account_texts("fr", french).unwrap();
        let router = pages.add_account_to(Router::new());
        let texts = |path: &str, accepted: &str| -> serde_json::Value {
            let request = TestRequest::get(path).header("Accept-Language", accepted);
            let answer = router.call(request).unwrap();
            assert_eq!(answer.header("Vary"), Some("Accept-Language"));
            serde_json::from_str(answer.text()).unwrap()
        };
        let of = |path: &str, accepted: &str| {
            let texts = texts(path, accepted);
            assert_eq!(texts["languages"], json!(["de", "en", "fr"]));
            (texts["language"].clone(), texts["texts"]["Sign in"].clone())
        };
        assert_eq!(of(TEXTS, "de-AT,de;q=0.9,en"), (json!("de"), json!("Anmelden")));
        assert_eq!(of(TEXTS, "fr"), (json!("fr"), json!("Se connecter")));
        assert_eq!(of(TEXTS, "en-GB,de"), (json!("en"), json!(null)));
        assert_eq!(of(TEXTS, "xx, *"), (json!("en"), json!(null)));
        // The choice of the person is before that of the browser.
        let chosen = format!("{TEXTS}?lang=de");
        assert_eq!(of(&chosen, "fr"), (json!("de"), json!("Anmelden")));
        let unknown = format!("{TEXTS}?lang=..%2F");
        assert_eq!(of(&unknown, "fr"), (json!("fr"), json!("Se connecter")));
        for (language, texts) in [("", "{}"), ("F R", "{}"), ("fr", "[]"), ("fr", r#"{"a":1}"#)] {
            assert!(AdminPages::new("/api").account_texts(language, texts).is_err(), "{language}");
        }
    }

    /// Each text of the scripts has a translation.
    #[test]
    fn german_is_complete() {
        let mut used = std::collections::BTreeSet::new();
        for asset in account_assets().filter(|asset| asset.path.ends_with(".js")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for (at, _) in text.match_indices("t('") {
                // Other functions end with the letter as well.
                if text[..at].ends_with(|before: char| before.is_alphanumeric()) {
                    continue;
                }
                used.extend(text[at + 3..].split('\'').next().map(str::to_owned));
            }
        }
        let german = AccountTexts::built_in();
        for text in ["Sign in", "{count} recovery codes are left.", "Cancel"] {
            assert!(used.contains(text), "{text}");
        }
        let missing: Vec<_> = used.iter().filter(|text| !german.has("de", text)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn settings_are_json() {
        let answer = router().call(TestRequest::get(SETTINGS)).unwrap();
        let settings: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(settings, json!({ "api": "/api", "title": "A \"title\"", "version": "" }));
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(ASSETS.iter().any(|asset| asset.bytes == bytes));
        }
    }

    #[test]
    fn pages_have_no_inline_script_or_style_and_no_foreign_address() {
        for asset in ASSETS {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for banned in ["<style", " style=", " onclick=", "innerHTML", "https://", "javascript:"]
            {
                assert!(!text.contains(banned), "{}: {banned}", asset.path);
            }
            let foreign = text
                .match_indices("http://")
                .find(|(at, _)| !text[*at..].starts_with("http://www.w3.org/2000/svg"));
            assert_eq!(foreign, None, "{}", asset.path);
        }
    }

    #[test]
    fn routes_of_the_program_are_kept() {
        let page = |text: &'static str| move |_: Request| async move { text };
        let router = Router::new().get("/", page("own")).get("/docs", page("own docs"));
        let router = AdminPages::new("/api").add_to(router);
        assert_eq!(router.call(TestRequest::get("/")).unwrap().text(), "own");
        assert_eq!(router.call(TestRequest::get("/docs")).unwrap().text(), "own docs");
        assert_eq!(router.call(TestRequest::get("/admin")).unwrap().status(), Status::OK);
    }

    #[test]
    fn an_api_of_tenants_has_no_pages() {
        let document = |_: Request| async { "{}" };
        let router = Router::new().get("/t/{tenant}/api/openapi.json", document);
        assert!(AdminPages::of_routes(&router).is_none());
    }
}
