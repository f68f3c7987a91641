//! The texts of the pages of accounts, by language.

use std::collections::BTreeMap;
use std::sync::Arc;

use marmota_http::Request;
use serde_json::{Value, json};

/// The language of the texts in the scripts.
const DEFAULT: &str = "en";
/// The languages that this crate has besides.
const BUILT_IN: [(&str, &str); 1] = [("de", include_str!("../texts/de.json"))];

/// The translations of a language, by the English texts.
type Texts = BTreeMap<String, String>;

/// The texts of all languages.
#[derive(Clone, Debug)]
pub(crate) struct AccountTexts(Arc<BTreeMap<String, Texts>>);

impl AccountTexts {
    /// Returns English and German.
    pub(crate) fn built_in() -> Self {
        let mut all = BTreeMap::from([(DEFAULT.to_owned(), Texts::new())]);
        for (language, json) in BUILT_IN {
            // A test reads each of them.
            all.insert(language.to_owned(), serde_json::from_str(json).unwrap_or_default());
        }
        Self(Arc::new(all))
    }

    /// Adds the texts of a language.
    pub(crate) fn add(&mut self, language: &str, json: &str) -> Result<(), String> {
        let is_letter = |letter: u8| letter.is_ascii_lowercase();
        if !(2..=8).contains(&language.len()) || !language.bytes().all(is_letter) {
            return Err(format!("`{language}` is not the code of a language, such as `fr`"));
        }
        let texts: Texts = serde_json::from_str(json).map_err(|error| {
            format!("the texts of `{language}` are not a JSON object of texts: {error}")
        })?;
        Arc::make_mut(&mut self.0).entry(language.to_owned()).or_default().extend(texts);
        Ok(())
    }

    /// Returns true if a text has a translation.
    #[cfg(test)]
    pub(crate) fn has(&self, language: &str, text: &str) -> bool {
        self.0.get(language).is_some_and(|texts| texts.contains_key(text))
    }

    /// Returns the texts in the language of a request: that of the parameter `lang`, otherwise the first known
    /// one of `Accept-Language`. Weights are ignored: browsers send the preferred languages first.
    pub(crate) fn document_for(&self, request: &Request) -> Value {
        let chosen = request.query_param("lang").unwrap_or_default();
        let accepted = request.header_text("accept-language").unwrap_or_default();
        let tags = std::iter::once(&*chosen).chain(accepted.split(','));
        let languages = tags.filter_map(|tag| tag.split([';', '-']).next());
        let mut known =
            languages.filter_map(|tag| self.0.get_key_value(&tag.trim().to_lowercase()));
        let (language, texts) =
            known.next().map_or((DEFAULT, None), |(language, texts)| (&**language, Some(texts)));
        let languages: Vec<&String> = self.0.keys().collect();
        json!({ "language": language, "languages": languages, "texts": texts.cloned().unwrap_or_default() })
    }
}
