//! Files of a folder as answers: whole or in part, with conditions, and in the content codings
//! stored next to them. Small files are kept in memory, large ones are read while they are sent.
//!
//! A request passes these steps: the thread's cache (`cached_file.rs`), else the path is resolved
//! to an open file (`opened_path.rs`) and its data is read or kept open ([`CachedFile`]); then the
//! coding, the conditions (RFC 9110, 13) and the range (`proto/range.rs`, `byte_ranges_body.rs`) are
//! chosen, and the answer is written. A folder without an index may be listed (`listing.rs`).
//!
//! Nothing is written: uploads are handlers' work; see [`Multipart`](crate::Multipart).

mod byte_ranges_body;
mod cached_file;
mod listing;
mod media_type;
mod opened_path;

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fd::OwnedFd;
use rustix::fs::Stat;

use cached_file::{Bytes, CachedFile, Version};
use opened_path::OpenedPath;

use crate::body::producer::BodyStream;
use crate::message::request::Request;
use crate::message::response::{IntoResponse, Response};
use crate::message::writer::ResponseWriter;
use crate::proto::accept_encoding::best_coding;
use crate::proto::method::Method;
use crate::proto::range::RequestedRange;
use crate::proto::status::Status;
use crate::routing::handler::Flow;
use crate::routing::router::Router;

/// Content codings, by name and file extension, whose files may be stored next to the plain one. If
/// a client prefers several equally, the first one is sent.
const CODINGS: [(&str, &str); 3] = [("br", ".br"), ("zstd", ".zst"), ("gzip", ".gz")];
/// Bytes of a large file per read.
const PIECE_BYTES: usize = 64 * 1024;

/// The symbolic links that are followed; see [`Files::symlinks`]. The kernel enforces it while it
/// resolves a path (`openat2`).
///
/// ```
/// use marmota_http::Symlinks;
/// assert_eq!(Symlinks::default(), Symlinks::Within);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Links that stay within the folder. On kernels before 5.6, and on other systems
    /// than Linux, no link is followed.
    #[default]
    Within,
    /// No links: a path with one is answered with 404.
    Refused,
    /// All links, also those that leave the folder. Only for folders that no one else can write to.
    Followed,
}

/// A folder whose files are served, for GET and HEAD; see [`Router::files`].
///
/// - Names that begin with a dot are not served, except `.well-known`.
/// - The path of a folder without its slash is redirected (301).
/// - `ETag` and `Last-Modified` are set, and conditional requests and ranges are answered (RFC
///   9110, 13 and 14). Up to 16 ranges are sent as `multipart/byteranges`.
/// - If `name.br`, `name.zst` or `name.gz` is next to a file and not older, it is sent to clients
///   that accept that coding.
/// - Files up to 64 KiB are kept in memory, up to 16 MiB for each thread. A change is noticed
///   within a second.
///
/// ```
/// use marmota_http::{Files, Router, Status, TestRequest};
/// # let folder = std::env::temp_dir().join(format!("marmota-files-{}", std::process::id()));
/// # std::fs::create_dir_all(folder.join("assets"))?;
/// # std::fs::write(folder.join("index.html"), "<h1>Marmots</h1>")?;
/// # std::fs::write(folder.join("assets/app.js"), "start()")?;
/// // folder: index.html, assets/app.js
/// let router = Router::new().files("/", Files::new(&folder).fallback("index.html"));
///
/// let script = router.call(TestRequest::get("/assets/app.js"))?;
/// assert_eq!(script.header("Content-Type"), Some("text/javascript; charset=utf-8"));
/// let page = router.call(TestRequest::get("/a/page/of/the/app"))?;
/// assert_eq!((page.status(), page.text()), (Status::OK, "<h1>Marmots</h1>"));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    /// The number of this folder in the threads' caches.
    number: usize,
    index: Option<String>,
    fallback: Option<String>,
    listed: bool,
    symlinks: Symlinks,
    /// Header lines that each answer has.
    more: Vec<u8>,
}

impl From<&str> for Files {
    fn from(folder: &str) -> Self {
        Self::new(folder)
    }
}

impl From<PathBuf> for Files {
    fn from(folder: PathBuf) -> Self {
        Self::new(folder)
    }
}

impl Files {
    /// Serves the files of this folder and its subfolders. A folder that cannot be read fails the
    /// start of the server.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self {
            folder: folder.into(),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            index: Some("index.html".to_owned()),
            fallback: None,
            listed: false,
            symlinks: Symlinks::default(),
            more: Vec::new(),
        }
    }

    /// Sets the name of the file that is served for a folder; `None` disables it. Default:
    /// `index.html`.
    ///
    /// ```
    /// use marmota_http::Files;
    /// let manual = Files::new("manual").index(Some("contents.html"));
    /// let archive = Files::new("archive").index(None).listed();
    /// ```
    #[must_use]
    pub fn index(mut self, name: Option<&str>) -> Self {
        self.index = name.map(str::to_owned);
        self
    }

    /// Answers paths without a file with this file, relative to the folder, and status 200, as
    /// single-page applications need it. Default: such paths are answered with 404.
    ///
    /// ```
    /// use marmota_http::Files;
    /// let app = Files::new("dist").fallback("index.html");
    /// ```
    #[must_use]
    pub fn fallback(mut self, path: &str) -> Self {
        self.fallback = Some(path.trim_start_matches('/').to_owned());
        self
    }

    /// Lists the names in a folder without an index as an HTML page, up to 10,000 of them. Default:
    /// such a folder is answered with 404.
    ///
    /// ```
    /// use marmota_http::{Files, Router, TestRequest};
    /// # let folder = std::env::temp_dir().join(format!("marmota-listed-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # std::fs::write(folder.join("report.pdf"), "")?;
    /// let router = Router::new().files("/reports", Files::new(&folder).listed());
    /// assert!(router.call(TestRequest::get("/reports/"))?.text().contains("report.pdf"));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn listed(mut self) -> Self {
        self.listed = true;
        self
    }

    /// Sets which symbolic links are followed. Default: [`Symlinks::Within`].
    ///
    /// ```
    /// use marmota_http::{Files, Symlinks};
    /// let files = Files::new("public").symlinks(Symlinks::Refused);
    /// ```
    #[must_use]
    pub fn symlinks(mut self, symlinks: Symlinks) -> Self {
        self.symlinks = symlinks;
        self
    }

    /// Sets the value of `Cache-Control` (RFC 9111). Default: no such header; clients then check
    /// again whether a file has changed.
    ///
    /// ```
    /// use marmota_http::Files;
    /// // For files whose names change with their content.
    /// let assets = Files::new("dist/assets").cache_control("public, max-age=31536000, immutable");
    /// ```
    ///
    /// # Panics
    /// If the value has a control character.
    #[must_use]
    pub fn cache_control(mut self, value: &str) -> Self {
        assert!(crate::proto::head::is_value(value.as_bytes()), "Cache-Control: {value:?}");
        self.more = format!("Cache-Control: {value}\r\n").into_bytes();
        self
    }

    /// Answers a path, by the thread's cache if its entry is fresh.
    fn answer(&self, request: &Request, path: &str, out: &mut ResponseWriter<'_>) {
        let now_ms = out.local().now_ms;
        let kept = cached_file::kept(self.number, path.as_bytes())
            .filter(|cached| cached.is_fresh(now_ms));
        if let Some(cached) = kept {
            return send(request, &cached, out);
        }
        match self.find(path, now_ms) {
            Some(Found::CachedFile(cached)) => {
                if cached.is_small() {
                    cached_file::keep(self.number, path.as_bytes(), Rc::clone(&cached));
                }
                send(request, &cached, out);
            }
            Some(Found::Answer(answer)) => out.respond(answer),
            Some(Found::Folder) => out.respond(to_folder(request)),
            None => {
                cached_file::forget(self.number, path.as_bytes());
                match &self.fallback {
                    Some(fallback) if fallback != path => self.answer(request, fallback, out),
                    _ => out.respond(Response::from_status(Status::NOT_FOUND)),
                }
            }
        }
    }

    /// Finds the answer for a path; `None` for 404.
    fn find(&self, path: &str, now_ms: u64) -> Option<Found> {
        let relative = opened_path::relative(path)?;
        let is_folder = path.is_empty() || path.ends_with('/');
        match self.open(&relative)? {
            OpenedPath::File(..) if is_folder => None,
            OpenedPath::File(file, stat) => {
                self.hold(&relative, file, &stat, now_ms).map(Rc::new).map(Found::CachedFile)
            }
            OpenedPath::Folder(_) if !is_folder => Some(Found::Folder),
            OpenedPath::Folder(folder) => {
                let slash = if relative.is_empty() { "" } else { "/" };
                if let Some(index) = &self.index {
                    let name = format!("{relative}{slash}{index}");
                    if let Some(OpenedPath::File(file, stat)) = self.open(&name) {
                        return self
                            .hold(&name, file, &stat, now_ms)
                            .map(Rc::new)
                            .map(Found::CachedFile);
                    }
                }
                let page =
                    self.listed.then(|| listing::page(folder, &format!("/{relative}{slash}")));
                page.flatten().map(Found::Answer)
            }
        }
    }

    /// Opens a file or folder below this folder.
    fn open(&self, relative: &str) -> Option<OpenedPath> {
        opened_path::open(&self.folder, relative, self.symlinks)
    }

    /// Reads or keeps open a file and its coded versions.
    fn hold(&self, relative: &str, file: OwnedFd, stat: &Stat, now_ms: u64) -> Option<CachedFile> {
        let mut coded = [None, None, None];
        for (place, (name, end)) in coded.iter_mut().zip(CODINGS) {
            if let Some(OpenedPath::File(file, beside)) = self.open(&format!("{relative}{end}"))
                // An older one belongs to an earlier version of the file.
                && (beside.st_mtime, beside.st_mtime_nsec) >= (stat.st_mtime, stat.st_mtime_nsec)
            {
                let coding = format!("Content-Encoding: {name}\r\nVary: Accept-Encoding\r\n");
                *place = Version::of(file, &beside, &[coding.as_bytes(), &self.more].concat());
            }
        }
        let varies = coded.iter().any(Option::is_some);
        let vary: &[u8] = if varies { b"Vary: Accept-Encoding\r\n" } else { b"" };
        Some(CachedFile {
            plain: Version::of(file, stat, &[vary, &self.more].concat())?,
            coded,
            media_type: media_type::of(relative),
            read_at_ms: now_ms,
        })
    }
}

/// The result for a path that is not answered with 404.
enum Found {
    /// A file.
    CachedFile(Rc<CachedFile>),
    /// A list of the names in a folder.
    Answer(Response),
    /// A folder, whose path lacks its slash.
    Folder,
}

/// Redirects the client to the path with a slash, which makes relative links work. The query is
/// kept.
fn to_folder(request: &Request) -> Response {
    let query = request.query();
    let mark = if query.is_empty() { "" } else { "?" };
    let target = format!("{}/{mark}{query}", request.path());
    match Response::from_status(Status::MOVED_PERMANENTLY).with_header("Location", target) {
        Ok(answer) => answer,
        Err(error) => error.into_response(),
    }
}

/// Returns the version of a file that the client prefers: the plain one, or one in a coding that it
/// accepts.
fn version<'a>(request: &Request, cached: &'a CachedFile) -> &'a Version {
    if cached.coded.iter().all(Option::is_none) {
        return &cached.plain;
    }
    let mut offered = [""; CODINGS.len()];
    for ((name, (coding, _)), version) in offered.iter_mut().zip(CODINGS).zip(&cached.coded) {
        if version.is_some() {
            *name = coding;
        }
    }
    let header = request.header_text("accept-encoding").unwrap_or_default();
    // `*` also matches the name of a missing version: the plain file replaces it.
    let best = best_coding(header, &offered);
    best.and_then(|at| cached.coded[at].as_ref()).unwrap_or(&cached.plain)
}

/// Returns true if the client has this version already: by `If-None-Match`, or else by
/// `If-Modified-Since` (RFC 9110, 13.2.2). Tags are compared weakly.
fn is_known(request: &Request, version: &Version) -> bool {
    match request.header_text("if-none-match") {
        Some(tags) => tags.split(',').any(|tag| {
            let tag = tag.trim();
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == version.etag
        }),
        None => request.header_text("if-modified-since").is_some_and(|date| version.is_as_of(date)),
    }
}

/// Returns the part that the client wants: all of it, unless `Range` is understood and `If-Range`,
/// if it is set, names this version.
fn part(request: &Request, version: &Version) -> RequestedRange {
    let Some(range) = request.header_text("range") else { return RequestedRange::Whole };
    let same = request
        .header_text("if-range")
        .is_none_or(|known| known == version.etag || version.is_exactly_as_of(known));
    if !same || request.method() != Method::Get {
        return RequestedRange::Whole;
    }
    crate::proto::range::wanted(range, version.length)
}

/// Writes the answer for a file: 304, 206, 416 or the whole file.
fn send(request: &Request, cached: &CachedFile, out: &mut ResponseWriter<'_>) {
    let version = version(request, cached);
    if is_known(request, version) {
        out.status(Status::NOT_MODIFIED).lines(&version.lines);
        return;
    }
    let (start, end) = match part(request, version) {
        RequestedRange::Whole => {
            out.content_type(cached.media_type).lines(&version.lines);
            (0, version.length)
        }
        RequestedRange::Part(start, end) => {
            out.status(Status::PARTIAL_CONTENT).content_type(cached.media_type);
            let last = end - 1;
            let range = format!("Content-Range: bytes {start}-{last}/{}\r\n", version.length);
            out.lines(&version.lines).lines(range.as_bytes());
            (start, end)
        }
        RequestedRange::Parts(parts) => {
            let (media_type, stream) = byte_ranges_body::answer(
                &parts,
                version.length,
                cached.media_type,
                version.bytes.clone(),
            );
            // Not by `content_type`: it is not the type of a file, whose heads are cached.
            let media_type = format!("Content-Type: {media_type}\r\n");
            out.status(Status::PARTIAL_CONTENT).lines(media_type.as_bytes()).lines(&version.lines);
            return out.stream(stream);
        }
        RequestedRange::Nothing => {
            let range = format!("Content-Range: bytes */{}\r\n", version.length);
            out.status(Status::RANGE_NOT_SATISFIABLE).lines(range.as_bytes());
            return;
        }
    };
    match &version.bytes {
        Bytes::Kept(bytes) if end - start == version.length => out.whole(bytes.clone().into()),
        Bytes::Kept(bytes) => out.whole(bytes[start as usize..end as usize].to_vec().into()),
        Bytes::File(_) => out.stream(read(version.bytes.clone(), start, end)),
    }
}

/// Returns a part of a file as a body, which is read while it is sent, [`PIECE_BYTES`] at a time.
/// The file stays open until then.
fn read(bytes: Bytes, start: u64, end: u64) -> BodyStream {
    let mut at = start;
    let stream = BodyStream::new(move |out: &mut Vec<u8>| {
        let count = read_piece(&bytes, at, end, out)?;
        at += count;
        Ok(match count {
            // Truncated in the meantime: the connection detects it.
            0 => ControlFlow::Break(()),
            _ if at == end => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    });
    stream.with_length(end - start)
}

/// Appends the next bytes of a part. Returns their number, or 0 if the file was truncated.
fn read_piece(bytes: &Bytes, at: u64, end: u64, out: &mut Vec<u8>) -> std::io::Result<u64> {
    let from = out.len();
    match bytes {
        Bytes::Kept(kept) => out.extend_from_slice(&kept[at as usize..end as usize]),
        Bytes::File(file) => {
            out.resize(from + PIECE_BYTES.min((end - at) as usize), 0);
            let count = file.read_at(&mut out[from..], at)?;
            out.truncate(from + count);
        }
    }
    Ok((out.len() - from) as u64)
}

impl Router {
    /// Serves the files of a folder under a prefix; see [`Files`]. A path to the folder is enough
    /// for the default settings.
    ///
    /// ```no_run
    /// use marmota_http::{Files, Router};
    /// let router = Router::new()
    ///     .files("/static", "public")
    ///     .files("/assets", Files::new("dist/assets").cache_control("public, max-age=31536000"));
    /// ```
    #[must_use]
    pub fn files(self, prefix: &str, files: impl Into<Files>) -> Self {
        let files: Files = files.into();
        let prefix = prefix.trim_end_matches('/').to_owned();
        let pattern = format!("{prefix}/{{path:path}}");
        let router = match files.folder.is_dir() {
            true => self,
            false => self
                .refuse(&pattern, format!("{} is not a readable folder", files.folder.display())),
        };
        let router = match prefix.is_empty() {
            true => router,
            false => router.direct(Method::Get, &prefix, |request, out| {
                out.respond(to_folder(request));
                Flow::Done
            }),
        };
        router.direct(Method::Get, &pattern, move |request, out| {
            let path = request.param_raw(0).and_then(|path| std::str::from_utf8(path).ok());
            files.answer(request, path.unwrap_or_default(), out);
            Flow::Done
        })
    }
}
