//! [`Templates`]: the texts of mails in several languages, as Jinja templates.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use marmota_auth::PreparedMail;
use marmota_model::{Error, ErrorKind, Result};
use minijinja::{Environment, UndefinedBehavior, context};

/// The language if the receiver prefers none of the others.
const DEFAULT: &str = "en";
/// The maximum size of a template.
const TEMPLATE_BYTES_MAX: u64 = 256 * 1024;

macro_rules! built_in {
    ($($language:literal: $($kind:literal)*;)*) => {
        &[$(($language, &[$((
            $kind,
            include_str!(concat!("../templates/", $language, "/", $kind, ".txt")),
        )),*])),*]
    };
}

/// A language, and the name and the text of each of its templates.
type Language = (&'static str, &'static [(&'static str, &'static str)]);

/// The templates of this crate.
const BUILT_IN: &[Language] = built_in! {
    "en": "sign-up" "invitation" "reset" "address" "login" "account-exists" "address-changed";
    "de": "sign-up" "invitation" "reset" "address" "login" "account-exists" "address-changed";
};

/// The HTML of all mails without an HTML template.
const HTML: &str = include_str!("../templates/mail.html");

/// The text of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailText {
    /// The subject.
    pub subject: String,
    /// The text.
    pub plain: String,
    /// The same as HTML.
    pub html: String,
}

/// The templates of mails. Cheap to clone.
///
/// A template is a text in Jinja's language, in a file for each language and mail: `en/reset.txt`. The first
/// line is the subject. It can use these values:
///
/// | value | content |
/// |---|---|
/// | `title` | the name of the program |
/// | `name` | the name of the user, or the address |
/// | `address` | the receiver |
/// | `url` | the link |
/// | `minutes`, `hours`, `days` | how long the link is valid, rounded down |
///
/// Without a template `en/reset.html`, the HTML has the paragraphs of the text, with a button for the link.
/// Values are escaped in HTML.
#[derive(Clone)]
pub struct Templates {
    title: String,
    environment: Arc<Environment<'static>>,
    /// The languages with templates: those of the folder, and the built-in ones.
    languages: Arc<[String]>,
}

impl Templates {
    /// Returns the built-in templates, in English and German. `title` is the name of the program.
    ///
    /// ```
    /// let templates = marmota_mail::Templates::new("Shop");
    /// assert_eq!(templates.languages(), ["de", "en"]);
    /// ```
    #[must_use]
    pub fn new(title: &str) -> Self {
        let languages = BUILT_IN.iter().map(|(language, _)| (*language).to_owned()).collect();
        Self::with_loader(title, None, languages)
    }

    /// Returns the built-in templates, replaced by those of a folder as far as it has them. A language of
    /// which the folder has some templates takes the others from English.
    ///
    /// The files are read when they are used first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the folder cannot be read; [`ErrorKind::Invalid`] for a template that is
    /// not valid, with its name and line.
    pub fn with_folder(title: &str, folder: &Path) -> Result<Self> {
        let unreadable = |error: std::io::Error| {
            let message =
                format!("cannot read the mail templates in {}: {error}", folder.display());
            Error::new(ErrorKind::NotFound, message)
        };
        let mut languages: Vec<String> =
            BUILT_IN.iter().map(|(language, _)| (*language).to_owned()).collect();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let language = entry.file_name().to_string_lossy().into_owned();
            if !entry.path().is_dir() || !is_language(&language) {
                continue;
            }
            for file in std::fs::read_dir(entry.path()).map_err(unreadable)? {
                let name = file.map_err(unreadable)?.file_name();
                names.push(format!("{language}/{}", name.to_string_lossy()));
            }
            languages.push(language);
        }
        let templates = Self::with_loader(title, Some(folder.to_owned()), languages);
        for name in names.iter().filter(|name| name.ends_with(".txt") || name.ends_with(".html")) {
            templates.environment.get_template(name).map_err(|error| invalid(&error))?;
        }
        Ok(templates)
    }

    fn with_loader(title: &str, folder: Option<PathBuf>, mut languages: Vec<String>) -> Self {
        languages.sort();
        languages.dedup();
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_loader(move |name| load(folder.as_deref(), name));
        let environment = Arc::new(environment);
        Self { title: title.to_owned(), environment, languages: languages.into() }
    }

    /// Returns the languages with templates.
    #[must_use]
    pub fn languages(&self) -> &[String] {
        &self.languages
    }

    /// Returns the text of a mail about an account, in the first language of its receiver that has
    /// templates. Default: English.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a template that cannot be rendered, with its name and line.
    pub fn account_mail(&self, mail: &PreparedMail) -> Result<MailText> {
        let language = self.language(&mail.languages);
        let kind = mail.kind.name();
        let values = context! {
            title => self.title.clone(),
            name => mail.name.clone(),
            address => mail.address.clone(),
            url => mail.url.clone().unwrap_or_default(),
            minutes => mail.minutes,
            hours => mail.minutes / 60,
            days => mail.minutes / (24 * 60),
        };
        let text = self.template(language, &format!("{kind}.txt"))?;
        let text = text.render(&values).map_err(|error| invalid(&error))?;
        let (subject, plain) = text.split_once('\n').unwrap_or((&text, ""));
        let (subject, plain) = (subject.trim().to_owned(), plain.trim().to_owned() + "\n");
        let html = match self.template(language, &format!("{kind}.html")) {
            Ok(html) => html.render(&values).map_err(|error| invalid(&error))?,
            Err(_) => self.html_of(language, &subject, &plain, mail.url.as_deref())?,
        };
        Ok(MailText { subject, plain, html })
    }

    /// Returns the paragraphs of a text as HTML.
    fn html_of(
        &self,
        language: &str,
        subject: &str,
        plain: &str,
        url: Option<&str>,
    ) -> Result<String> {
        let paragraphs = plain.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
        let paragraphs = paragraphs.filter(|text| Some(*text) != url).map(str::to_owned);
        let paragraphs: Vec<String> = paragraphs.collect();
        let html = self.environment.get_template("mail.html").map_err(|error| invalid(&error))?;
        let values = context! {
            title => self.title.clone(),
            language => language.to_owned(),
            subject => subject.to_owned(),
            paragraphs,
            url => url.map(str::to_owned),
        };
        html.render(values).map_err(|error| invalid(&error))
    }

    /// Returns a template of a language, or of the default language.
    fn template(&self, language: &str, file: &str) -> Result<minijinja::Template<'_, '_>> {
        let of_language = self.environment.get_template(&format!("{language}/{file}"));
        let found = match of_language {
            Err(error) if error.kind() == minijinja::ErrorKind::TemplateNotFound => {
                self.environment.get_template(&format!("{DEFAULT}/{file}"))
            }
            found => found,
        };
        found.map_err(|error| invalid(&error))
    }

    /// Returns the first language of a list such as `de-AT,de;q=0.9,en` that has templates. Weights are
    /// ignored: browsers send the preferred languages first.
    fn language(&self, preferred: &str) -> &str {
        let tags = preferred.split(',').filter_map(|tag| tag.split([';', '-']).next());
        let tags = tags.map(|tag| tag.trim().to_lowercase());
        let known = |tag: String| self.languages.iter().find(|language| **language == tag);
        tags.into_iter().find_map(known).map_or(DEFAULT, String::as_str)
    }
}

impl fmt::Debug for Templates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Templates({}, {:?})", self.title, self.languages)
    }
}

/// Returns true for the name of a folder of a language.
fn is_language(name: &str) -> bool {
    (2..=8).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Returns the text of a template: from the folder, otherwise the built-in one.
fn load(
    folder: Option<&Path>,
    name: &str,
) -> std::result::Result<Option<String>, minijinja::Error> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_safe =
        |part: &&str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0']);
    if !parts.iter().all(is_safe) {
        return Ok(None);
    }
    if let Some(folder) = folder {
        let path = parts.iter().fold(folder.to_owned(), |path, part| path.join(part));
        let unreadable = |error: std::io::Error| {
            let message = format!("{}: {error}", path.display());
            minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message)
        };
        match std::fs::metadata(&path) {
            Ok(found) if found.len() > TEMPLATE_BYTES_MAX => {
                let message = format!("a template has at most {TEMPLATE_BYTES_MAX} bytes");
                return Err(unreadable(std::io::Error::other(message)));
            }
            Ok(_) => return std::fs::read_to_string(&path).map(Some).map_err(unreadable),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    if name == "mail.html" {
        return Ok(Some(HTML.to_owned()));
    }
    let [language, file] = &parts[..] else { return Ok(None) };
    let language = BUILT_IN.iter().find(|(name, _)| name == language);
    let kinds = language.map(|(_, kinds)| *kinds).unwrap_or_default();
    let found = kinds.iter().find(|(kind, _)| file.strip_suffix(".txt") == Some(kind));
    Ok(found.map(|(_, text)| (*text).to_owned()))
}

#[cold]
fn invalid(error: &minijinja::Error) -> Error {
    Error::new(ErrorKind::Invalid, format!("the mail template is not valid: {error}"))
}
