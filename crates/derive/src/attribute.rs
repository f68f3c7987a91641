//! The attribute `#[model(…)]`, split into named items, each of which is then parsed in its
//! expected form. The error for an item in another form shows an example of the correct one.
//!
//! Parsing has two steps, so that the errors of one build are complete: [`items`] checks the names
//! only, and the owner of an item checks its form ([`Item::bare`], [`Item::text`],
//! [`Item::constant`], [`Item::path`], [`Item::names`], [`Item::ends`]). To add an attribute, add
//! its name and an example to [`MODEL`], [`FIELD`], [`ENUM`] or [`VARIANT`], and read it in
//! `model.rs`, `field.rs` or `model_enum.rs`.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, LitStr, Meta, Path, Token, parenthesized, token};

use crate::constant::Constant;
use crate::name;
use crate::problem::Problems;

/// A place where `#[model(…)]` is allowed.
pub(crate) struct Place {
    /// Its name in errors.
    called: &'static str,
    /// The allowed items: name and example.
    known: &'static [(&'static str, &'static str)],
    /// The items that may be repeated.
    repeated: &'static [&'static str],
}

/// The attribute of a struct.
pub(crate) const MODEL: Place = Place {
    called: "a model",
    known: &[
        ("table", "table = \"person\""),
        ("was", "was = \"customer\""),
        ("index", "index(last_name, first_name)"),
        ("unique", "unique(email, where = \"deleted = null\")"),
        ("audit", "audit"),
        ("search_language", "search_language = \"english\""),
        ("relation", "relation(labels = \"issue_label.label\")"),
        ("crate", "crate = \"marmota::model\""),
    ],
    repeated: &["index", "unique", "relation"],
};

/// The attribute of a field of a struct.
pub(crate) const FIELD: Place = Place {
    called: "a field",
    known: &[
        ("key", "key"),
        ("rename", "rename = \"column\""),
        ("was", "was = \"old_column\""),
        ("computed", "computed = \"price * count\""),
        ("generated", "generated = \"price * count\""),
        ("max", "max = 40"),
        ("collate", "collate = \"nocase\""),
        ("search", "search"),
        ("immutable", "immutable"),
        ("on_delete", "on_delete = \"cascade\""),
        ("unique", "unique"),
        ("index", "index"),
        ("default", "default = 7"),
        ("default_expression", "default_expression = \"@now\""),
        ("bytes_max", "bytes_max = \"10 MB\""),
        ("types", "types(\"image/*\", \"application/pdf\")"),
        ("not_empty", "not_empty"),
        ("length", "length(min = 2, max = 9)"),
        ("range", "range(min = 0, max = 100)"),
        ("pattern", "pattern = \"[A-Z]{2}\""),
        ("email", "email"),
        ("url", "url"),
        ("ip", "ip"),
        ("count", "count(digits, min = 1)"),
        ("trim", "trim"),
        ("collapse_spaces", "collapse_spaces"),
        ("lower", "lower"),
        ("upper", "upper"),
        ("check", "check = path::to::function"),
        ("created_at", "created_at"),
        ("updated_at", "updated_at"),
        ("version", "version"),
    ],
    repeated: &["check", "count", "pattern"],
};

/// The attribute of an enum.
pub(crate) const ENUM: Place = Place {
    called: "an enum",
    known: &[("integer", "integer"), ("crate", "crate = \"marmota::model\"")],
    repeated: &[],
};

/// The attribute of a variant of an enum.
pub(crate) const VARIANT: Place =
    Place { called: "a variant", known: &[("rename", "rename = \"name\"")], repeated: &[] };

/// Names in other libraries, and their equivalents here.
const FOREIGN: &[(&str, &str)] = &[
    ("primary_key", "`key`"),
    ("id", "`key`"),
    ("max_length", "`max`"),
    ("max_len", "`max`"),
    ("min", "`length(min = …)` for texts or `range(min = …)` for numbers"),
    ("regex", "`pattern`"),
    ("name", "`rename`"),
    ("column", "`rename`"),
    ("table_name", "`table`"),
    ("validate", "`check`"),
    ("custom", "`check`"),
    ("required", "`not_empty`; a field is required unless its type is an Option"),
    ("nullable", "an Option as the field's type"),
    ("readonly", "`immutable`"),
    ("read_only", "`immutable`"),
    ("optional", "an Option as the field's type"),
    ("ondelete", "`on_delete`"),
    ("cascade", "`on_delete = \"cascade\"`"),
];

/// The error for an item that requires a constant.
const CONSTANT: &str = "write a constant: a number, a text in quotes, `true` or `false` \
                        (an Option is NULL unless it is given a default)";

/// One item: `max = 40`.
pub(crate) struct Item {
    /// Its name.
    pub(crate) name: Ident,
    /// The part after the name.
    given: Given,
    /// The correct form, for the error; from [`Place`].
    example: &'static str,
}

/// The form in which an item is written.
enum Given {
    /// `name`
    Nothing,
    /// `name = value`
    Value(TokenStream),
    /// `name(…)`
    List(TokenStream),
}

/// The two bounds of `length` and `range`.
#[derive(Default)]
pub(crate) struct Ends {
    /// `min = …`.
    pub(crate) min: Option<Constant>,
    /// `max = …`.
    pub(crate) max: Option<Constant>,
}

/// Returns the items of every `#[model(…)]` in `attributes`. Items that `place` does not allow are
/// reported and left out.
pub(crate) fn items(attributes: &[Attribute], place: &Place, problems: &mut Problems) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("model")) {
        let Meta::List(list) = &attribute.meta else {
            let example = place.known[0].1;
            problems.at(attribute, format!("write `#[model({example})]`"));
            continue;
        };
        let parser = Punctuated::<Item, Token![,]>::parse_terminated;
        for mut item in problems.keep(parser.parse2(list.tokens.clone())).unwrap_or_default() {
            let name = item.name.to_string();
            let Some(known) = place.known.iter().find(|known| known.0 == name) else {
                problems.at(&item.name, unknown(&name, place));
                continue;
            };
            if !place.repeated.contains(&known.0) && items.iter().any(|other| other.name == name) {
                problems.at(&item.name, format!("`{name}` is written twice; keep one"));
                continue;
            }
            item.example = known.1;
            items.push(item);
        }
    }
    items
}

/// Returns the error for an unknown name: with the place where it is allowed, the equivalent of a
/// name from another library, or the most similar name.
fn unknown(name: &str, place: &Place) -> String {
    let elsewhere = [&MODEL, &FIELD, &ENUM, &VARIANT]
        .into_iter()
        .find(|other| other.known.iter().any(|known| known.0 == name));
    if let Some(other) = elsewhere {
        return format!("`{name}` belongs on {}, not on {}", other.called, place.called);
    }
    let names = place.known.iter().map(|known| known.0);
    let foreign = FOREIGN.iter().find(|foreign| foreign.0 == name);
    let hint = match (foreign, name::nearest(name, names.clone())) {
        (Some((_, here)), _) => format!("; here it is {here}"),
        (None, Some(near)) => format!("; did you mean `{near}`?"),
        (None, None) => String::new(),
    };
    let names: Vec<&str> = names.collect();
    format!("no attribute `{name}`{hint}\n{} has {}", place.called, names.join(", "))
}

impl Parse for Item {
    /// Parses one item up to the next comma. Any identifier is accepted as the name, also a keyword
    /// such as `crate`.
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = Ident::parse_any(input)?;
        let given = if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            Given::List(content.parse()?)
        } else if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            let mut value = TokenStream::new();
            while !input.is_empty() && !input.peek(Token![,]) {
                value.extend([input.parse::<TokenTree>()?]);
            }
            Given::Value(value)
        } else {
            Given::Nothing
        };
        Ok(Self { name, given, example: "" })
    }
}

impl Item {
    /// Checks that the item has no value.
    pub(crate) fn bare(&self, problems: &mut Problems) {
        if !matches!(self.given, Given::Nothing) {
            self.refuse(problems);
        }
    }

    /// Returns the text of `name = "text"`.
    pub(crate) fn text(&self, problems: &mut Problems) -> Option<LitStr> {
        self.value(problems)
    }

    /// Returns the text of `name = "expression"`, which must not be empty.
    pub(crate) fn expression(&self, problems: &mut Problems) -> Option<String> {
        let text = self.text(problems)?;
        if text.value().trim().is_empty() {
            problems.at(&text, format!("write an expression, as in `{}`", self.example));
        }
        Some(text.value())
    }

    /// Returns the text of `name = "expression"`; it is empty for `name` alone.
    pub(crate) fn expression_or_bare(&self, problems: &mut Problems) -> Option<String> {
        match self.given {
            Given::Nothing => Some(String::new()),
            _ => self.expression(problems),
        }
    }

    /// Returns the text of `was = "name"`, the previous name of a column or table.
    pub(crate) fn former_name(&self, problems: &mut Problems) -> Option<String> {
        let text = self.text(problems)?;
        if let Some(fault) = name::fault(&text.value()) {
            problems.at(&text, fault);
        }
        Some(text.value())
    }

    /// Returns the constant of `name = constant`.
    pub(crate) fn constant(&self, problems: &mut Problems) -> Option<Constant> {
        let constant = syn::parse2(self.value_tokens(problems)?);
        constant.map_err(|_| problems.at(self, CONSTANT)).ok()
    }

    /// Returns the path of `name = path`.
    pub(crate) fn path(&self, problems: &mut Problems) -> Option<Path> {
        let tokens = self.value_tokens(problems)?;
        // Both `f::<…>` and `F<…>` are accepted as the path of a function.
        let Ok(path) = Path::parse_mod_style.parse2(tokens) else {
            self.refuse(problems);
            return None;
        };
        Some(path)
    }

    /// Returns the names of `name(one, two)`, at least one.
    pub(crate) fn names(&self, problems: &mut Problems) -> Vec<Ident> {
        let parser = Punctuated::<Ident, Token![,]>::parse_terminated_with;
        let parser = |input: ParseStream<'_>| parser(input, Ident::parse_any);
        if let Given::List(list) = &self.given
            && let Ok(names) = parser.parse2(list.clone())
            && !names.is_empty()
        {
            return names.into_iter().collect();
        }
        self.refuse(problems);
        Vec::new()
    }

    /// Returns the names and the filter of `name(one, two, where = "filter")`: at least one name, and
    /// the filter last, if there is one.
    pub(crate) fn names_where(&self, problems: &mut Problems) -> (Vec<Ident>, Option<LitStr>) {
        let mut items = self.list().unwrap_or_default();
        let last = items.pop_if(|item| item.name == "where");
        let is_name = |item: &Self| matches!(item.given, Given::Nothing);
        if items.is_empty() || !items.iter().all(is_name) {
            self.refuse(problems);
            return (Vec::new(), None);
        }
        let filter = last.and_then(|item| {
            let filter = Self { example: self.example, ..item }.text(problems)?;
            if filter.value().trim().is_empty() {
                problems.at(&filter, "write a filter, such as `deleted = null`");
            }
            Some(filter)
        });
        (items.into_iter().map(|item| item.name).collect(), filter)
    }

    /// Returns the texts of `name("one", "two")`, at least one.
    pub(crate) fn texts(&self, problems: &mut Problems) -> Vec<LitStr> {
        let parser = Punctuated::<LitStr, Token![,]>::parse_terminated;
        if let Given::List(list) = &self.given
            && let Ok(texts) = parser.parse2(list.clone())
            && !texts.is_empty()
        {
            return texts.into_iter().collect();
        }
        self.refuse(problems);
        Vec::new()
    }

    /// Returns the names of `name(one, two)`; none for `name` alone.
    pub(crate) fn names_or_bare(&self, problems: &mut Problems) -> Vec<Ident> {
        match self.given {
            Given::Nothing => Vec::new(),
            _ => self.names(problems),
        }
    }

    /// Parses the value of `name = value` of an attribute other than `model`, with an example for
    /// the error.
    pub(crate) fn parsed<T: Parse>(&self, example: &str, problems: &mut Problems) -> Option<T> {
        let value = match &self.given {
            Given::Value(tokens) => syn::parse2(tokens.clone()).ok(),
            _ => None,
        };
        if value.is_none() {
            problems.at(self, format!("write it as in `{example}`"));
        }
        value
    }

    /// Returns the pairs of `name(one = "text", two = "text")`, at least one.
    pub(crate) fn pairs(&self, problems: &mut Problems) -> Vec<(Ident, LitStr)> {
        let parser = Punctuated::<Item, Token![,]>::parse_terminated;
        if let Given::List(list) = &self.given
            && let Ok(items) = parser.parse2(list.clone())
            && !items.is_empty()
        {
            let pair = |item: Item| {
                let item = Self { example: self.example, ..item };
                Some((item.name.clone(), item.text(problems)?))
            };
            return items.into_iter().filter_map(pair).collect();
        }
        self.refuse(problems);
        Vec::new()
    }

    /// Returns the constants of `name(min = constant, max = constant)`, at least one.
    pub(crate) fn ends(&self, problems: &mut Problems) -> Ends {
        match self.list() {
            Some(items) if !items.is_empty() => self.ends_of(items, problems),
            _ => {
                self.refuse(problems);
                Ends::default()
            }
        }
    }

    /// Returns the name and the constants of `name(class, min = constant, max = constant)`.
    pub(crate) fn named_ends(&self, problems: &mut Problems) -> Option<(Ident, Ends)> {
        let mut items = self.list().unwrap_or_default().into_iter();
        let (first, rest) = (items.next(), items.collect::<Vec<_>>());
        let Some(Self { name, given: Given::Nothing, .. }) = first.filter(|_| !rest.is_empty())
        else {
            self.refuse(problems);
            return None;
        };
        Some((name, self.ends_of(rest, problems)))
    }

    /// Returns the items in the parentheses.
    fn list(&self) -> Option<Vec<Self>> {
        let Given::List(list) = &self.given else { return None };
        let parser = Punctuated::<Self, Token![,]>::parse_terminated;
        Some(parser.parse2(list.clone()).ok()?.into_iter().collect())
    }

    fn ends_of(&self, items: Vec<Self>, problems: &mut Problems) -> Ends {
        let mut ends = Ends::default();
        for item in items {
            let end = match item.name.to_string().as_str() {
                "min" => &mut ends.min,
                "max" => &mut ends.max,
                _ => {
                    self.refuse(problems);
                    return Ends::default();
                }
            };
            let item = Self { example: self.example, ..item };
            if end.is_some() {
                problems.at(&item.name, format!("`{}` is written twice; keep one", item.name));
            }
            *end = item.constant(problems);
        }
        ends
    }

    /// Parses the value of `name = value`.
    fn value<T: Parse>(&self, problems: &mut Problems) -> Option<T> {
        let tokens = self.value_tokens(problems)?;
        let value = syn::parse2(tokens).ok();
        if value.is_none() {
            self.refuse(problems);
        }
        value
    }

    /// Returns the tokens of the value of `name = value`.
    fn value_tokens(&self, problems: &mut Problems) -> Option<TokenStream> {
        if let Given::Value(tokens) = &self.given {
            return Some(tokens.clone());
        }
        self.refuse(problems);
        None
    }

    /// Reports an item in another form, with an example of the correct one.
    fn refuse(&self, problems: &mut Problems) {
        problems.at(self, format!("write it as in `#[model({})]`", self.example));
    }
}

impl ToTokens for Item {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.name.to_tokens(tokens);
        if let Given::Value(given) | Given::List(given) = &self.given {
            given.to_tokens(tokens);
        }
    }
}
