//! One field of a model: reads and checks its attributes, and generates its entry in the schema.
//!
//! A field is read in three steps: [`Field::read`] collects the items, `apply` evaluates each, and
//! `check` compares them. A fault is recorded and the item left out, so that later faults are
//! reported as well. The checks that need several fields are in `model.rs`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Visibility;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::attribute::{self, Ends, Item};
use crate::constant::{Constant, Literal};
use crate::name;
use crate::problem::Problems;
use crate::shape::{Shape, inside_option};

/// The attributes that determine the values of rows without the field.
const DEFAULTS: [&str; 4] = ["default", "default_expression", "computed", "generated"];

/// The role of a field in the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// A field without a role.
    Plain,
    /// The key.
    Key,
    /// The time of the insert.
    CreatedAt,
    /// The time of the last write.
    UpdatedAt,
    /// The number of writes.
    Version,
}

/// One field of a model.
pub(crate) struct Field {
    /// Its name in Rust.
    pub(crate) ident: Ident,
    /// Its visibility, which its constant has as well.
    pub(crate) visibility: Visibility,
    /// Its type, with `Self` replaced by the model's name.
    pub(crate) of: TokenStream,
    /// The position of errors about its type.
    pub(crate) of_span: Span,
    /// The name of the column.
    pub(crate) name: String,
    /// The position of the column's name in the source, for errors.
    pub(crate) name_span: Span,
    /// The name of its constant: `LAST_NAME`.
    pub(crate) constant: Ident,
    /// Its role. That of a field called `id` becomes [`Role::Key`] in `model.rs`.
    pub(crate) role: Role,
    /// The attribute item that set its role.
    pub(crate) role_span: Option<Span>,
    /// True if it has `unique`.
    pub(crate) unique: bool,
    /// True if it has `index`.
    pub(crate) index: bool,
    /// True if it has `search`, and may be a text.
    search: bool,
    /// True if it has `immutable`.
    immutable: bool,
    /// The fields that a composite key consists of: those of `key(one, two)`.
    pub(crate) key_of: Vec<Ident>,
    /// The variant of the schema's `OnDelete`.
    on_delete: &'static str,
    /// Its type without `Option`, for rules.
    inside: TokenStream,
    /// Its type without `Option`, as far as its name determines it.
    shape: Shape,
    /// True if its type is an `Option`.
    optional: bool,
    /// The parameters of its kind, if it has `max` or `collate`.
    text: Option<Text>,
    /// The parameters of its kind, if it has `bytes_max` or `types`.
    file: Option<FileLimits>,
    /// The default of new rows.
    default: Option<Literal>,
    /// The expression whose value new rows get by default.
    default_expression: Option<String>,
    /// The expression of a computed field.
    computed: Option<String>,
    /// The SQL expression of a generated column; empty for one that the database has.
    generated: Option<String>,
    /// The variants of its sanitizers, in the order of the source.
    sanitizers: Vec<Ident>,
    /// The code of its rules, in the order of the source.
    rules: Vec<TokenStream>,
    /// The previous name of its column.
    was: Option<String>,
}

/// The parameters `max` and `collate` of a text field.
struct Text {
    /// The maximum number of characters; 0 for no limit.
    chars_max: u32,
    /// The variant of the schema's `Collation`.
    collation: &'static str,
    span: Span,
}

/// The parameters `bytes_max` and `types` of a file field.
struct FileLimits {
    /// `None` for the default of the type.
    bytes_max: Option<u64>,
    types: Vec<String>,
    span: Span,
}

impl Field {
    /// Returns true if its words can be searched for.
    pub(crate) const fn is_searched(&self) -> bool {
        self.search
    }

    /// Reads a field of the struct `owner`.
    pub(crate) fn read(
        field: &syn::Field,
        ident: &Ident,
        owner: &Ident,
        model: &TokenStream,
        problems: &mut Problems,
    ) -> Self {
        let rust_name = ident.unraw().to_string();
        let inside = inside_option(&field.ty);
        let inner = inside.unwrap_or(&field.ty);
        let constant = name::snake_case(&rust_name).to_uppercase();
        let mut read = Self {
            ident: ident.clone(),
            visibility: field.vis.clone(),
            of: without_self(field.ty.to_token_stream(), owner),
            of_span: field.ty.span(),
            name: rust_name,
            name_span: ident.span(),
            constant: format_ident!("{constant}", span = ident.span()),
            role: Role::Plain,
            role_span: None,
            unique: false,
            index: false,
            search: false,
            immutable: false,
            key_of: Vec::new(),
            on_delete: "Restrict",
            inside: without_self(inner.to_token_stream(), owner),
            shape: Shape::of(inner),
            optional: inside.is_some(),
            text: None,
            file: None,
            default: None,
            default_expression: None,
            computed: None,
            generated: None,
            sanitizers: Vec::new(),
            rules: Vec::new(),
            was: None,
        };
        let items = attribute::items(&field.attrs, &attribute::FIELD, problems);
        for item in &items {
            read.apply(item, owner, model, problems);
        }
        read.check(&items, problems);
        read
    }

    /// Evaluates one item.
    fn apply(&mut self, item: &Item, owner: &Ident, model: &TokenStream, problems: &mut Problems) {
        let name = item.name.to_string();
        match name.as_str() {
            "key" => {
                self.key_of = item.names_or_bare(problems);
                self.take_role(Role::Key, item, problems);
            }
            "created_at" => self.take_role(Role::CreatedAt, item, problems),
            "updated_at" => self.take_role(Role::UpdatedAt, item, problems),
            "version" => self.take_role(Role::Version, item, problems),
            "unique" => {
                item.bare(problems);
                self.unique = true;
            }
            "index" => {
                item.bare(problems);
                self.index = true;
            }
            "search" => {
                item.bare(problems);
                self.search = self.suits(self.shape.may_be_text(), item, "texts", problems);
            }
            "immutable" => {
                item.bare(problems);
                self.immutable = true;
            }
            "on_delete" => self.apply_on_delete(item, problems),
            "rename" => {
                if let Some(text) = item.text(problems) {
                    self.name = text.value();
                    self.name_span = text.span();
                }
            }
            "was" => self.was = item.former_name(problems),
            "max" | "collate" => self.apply_text(item, problems),
            "trim" => self.take_sanitizer("Trim", item, problems),
            "collapse_spaces" => self.take_sanitizer("CollapseSpaces", item, problems),
            "lower" => self.take_sanitizer("Lower", item, problems),
            "upper" => self.take_sanitizer("Upper", item, problems),
            "bytes_max" | "types" => self.apply_file(item, problems),
            "default" => {
                if let Some(constant) = item.constant(problems) {
                    self.default = self.literal(&constant, problems);
                }
            }
            "default_expression" => self.default_expression = item.expression(problems),
            "computed" => self.computed = item.expression(problems),
            "generated" => self.generated = item.expression_or_bare(problems),
            _ => self.apply_rule(item, owner, model, problems),
        }
    }

    /// Sets the role; a second one is an error.
    fn take_role(&mut self, role: Role, item: &Item, problems: &mut Problems) {
        if role != Role::Key {
            item.bare(problems);
        }
        if self.role != Role::Plain {
            problems.at(
                item,
                "a field can have only one of the roles key, created_at, updated_at \
                               and version",
            );
        }
        self.role = role;
        self.role_span = Some(item.name.span());
    }

    /// Adds a sanitizer, which is written without a value.
    fn take_sanitizer(&mut self, variant: &str, item: &Item, problems: &mut Problems) {
        item.bare(problems);
        if self.suits(self.shape.may_be_text(), item, "texts", problems) {
            self.sanitizers.push(format_ident!("{variant}"));
        }
    }

    /// Evaluates `max` and `collate`, which both change the kind of a text.
    fn apply_text(&mut self, item: &Item, problems: &mut Problems) {
        if !self.suits(self.shape.may_be_text(), item, "texts", problems) {
            return;
        }
        let text = self.text.get_or_insert(Text {
            chars_max: 0,
            collation: "Binary",
            span: item.name.span(),
        });
        if item.name == "max" {
            if let Some(constant) = item.constant(problems) {
                match constant.size(1) {
                    Ok(size) => text.chars_max = size,
                    Err(why) => problems.at(constant, format!("{why} of characters")),
                }
            }
        } else if let Some(collation) = item.text(problems) {
            match collation.value().as_str() {
                "nocase" => text.collation = "NoCase",
                "binary" => text.collation = "Binary",
                other => problems.at(
                    collation,
                    format!("unknown collation {other:?}; use \"nocase\" or \"binary\""),
                ),
            }
        }
    }

    /// Evaluates `on_delete`, the action when the row that the field refers to is deleted.
    fn apply_on_delete(&mut self, item: &Item, problems: &mut Problems) {
        if !self.suits(self.shape.may_be_reference(), item, "references", problems) {
            return;
        }
        let Some(action) = item.text(problems) else { return };
        match action.value().as_str() {
            "restrict" => self.on_delete = "Restrict",
            "cascade" => self.on_delete = "Cascade",
            "set_null" if !self.optional && self.shape == Shape::Reference => {
                problems.at(
                    action,
                    "the field can be NULL only as an `Option`; use that, or \"cascade\"",
                );
            }
            "set_null" => self.on_delete = "SetNull",
            other => problems.at(
                action,
                format!("unknown action {other:?}; use \"restrict\", \"cascade\" or \"set_null\""),
            ),
        }
    }

    /// Evaluates `bytes_max` and `types`, which both change the kind of a file.
    fn apply_file(&mut self, item: &Item, problems: &mut Problems) {
        if !self.suits(self.shape.may_be_file(), item, "files", problems) {
            return;
        }
        let file = self.file.get_or_insert(FileLimits {
            bytes_max: None,
            types: Vec::new(),
            span: item.name.span(),
        });
        if item.name == "types" {
            for text in item.texts(problems) {
                match is_media_type(&text.value()) {
                    true => file.types.push(text.value()),
                    false => problems.at(
                        text,
                        "write a media type in lower case, such as \"image/png\" or \"image/*\"",
                    ),
                }
            }
        } else if let Some(constant) = item.constant(problems) {
            match constant.bytes() {
                Ok(bytes) => file.bytes_max = Some(bytes),
                Err(why) => problems.at(constant, why),
            }
        }
    }

    /// Evaluates the items that are rules.
    fn apply_rule(
        &mut self,
        item: &Item,
        owner: &Ident,
        model: &TokenStream,
        problems: &mut Problems,
    ) {
        let name = item.name.to_string();
        let (suits, whom) = match name.as_str() {
            "not_empty" | "length" => (self.shape.may_have_length(), "texts and blobs"),
            "range" => (self.shape.may_have_range(), "numbers, dates and times"),
            "pattern" | "email" | "url" | "ip" | "count" => (self.shape.may_be_text(), "texts"),
            _ => (true, ""),
        };
        if !self.suits(suits, item, whom, problems) {
            return;
        }
        let rule = match name.as_str() {
            "not_empty" | "email" | "url" | "ip" => {
                item.bare(problems);
                let variant = match name.as_str() {
                    "email" => format_ident!("Email"),
                    "url" => format_ident!("Url"),
                    "ip" => format_ident!("Ip"),
                    _ => format_ident!("NotEmpty"),
                };
                Some(quote!(#model::Rule::#variant))
            }
            "count" => count_rule(item, model, problems),
            "length" => length_rule(item, model, problems),
            "range" => self.range_rule(item, model, problems),
            "pattern" => pattern_rule(item, model, problems),
            _ => self.check_rule(item, owner, model, problems),
        };
        self.rules.extend(rule);
    }

    /// Reports an item that does not apply to the type of the field; returns `suits`.
    fn suits(&self, suits: bool, item: &Item, whom: &str, problems: &mut Problems) -> bool {
        if !suits {
            let of = self.inside.to_string().replace(' ', "");
            problems.at(item, format!("`{}` is only for {whom}; this field is `{of}`", item.name));
        }
        suits
    }

    /// Returns a constant as a literal of the field's type, or reports the expected form.
    fn literal(&self, constant: &Constant, problems: &mut Problems) -> Option<Literal> {
        constant.literal(self.shape).map_err(|why| problems.at(constant, why)).ok()
    }

    /// Returns the rule for `range(…)`.
    fn range_rule(
        &self,
        item: &Item,
        model: &TokenStream,
        problems: &mut Problems,
    ) -> Option<TokenStream> {
        let ends = item.ends(problems);
        let min = ends.min.as_ref().and_then(|end| self.literal(end, problems));
        let max = ends.max.as_ref().and_then(|end| self.literal(end, problems));
        if let (Some(least), Some(most)) = (&min, &max)
            && least.order(most).is_some_and(std::cmp::Ordering::is_gt)
        {
            problems.at(item, "`min` is above `max`: no value would be valid");
        }
        let [min, max] = [min, max].map(|end| optional(end.map(|end| end.code(model))));
        Some(quote!(#model::Rule::Range { min: #min, max: #max }))
    }

    /// Returns the rule for a function that takes the field's type by reference. NULL satisfies
    /// every rule, so the function never receives an `Option`.
    fn check_rule(
        &self,
        item: &Item,
        owner: &Ident,
        model: &TokenStream,
        problems: &mut Problems,
    ) -> Option<TokenStream> {
        let path = item.path(problems)?;
        let rule = path.segments.last()?.ident.unraw().to_string();
        let function = without_self(path.to_token_stream(), owner);
        let inside = &self.inside;
        // Hygienic, so that a user's function may have the name `value`.
        let value = Ident::new("value", Span::mixed_site());
        let span = path.span().resolved_at(Span::call_site());
        let call = quote_spanned!(span=> #function(&#value));
        Some(quote!(#model::Rule::Check {
            name: #rule,
            check: |#value| match <#inside as #model::FieldValue>::from_row(#value) {
                ::std::option::Option::Some(#value) => #call,
                ::std::option::Option::None => ::std::result::Result::Ok(()),
            },
        }))
    }

    /// Checks that need all items of the field.
    fn check(&self, items: &[Item], problems: &mut Problems) {
        if let Some(fault) = name::fault(&self.name) {
            let way_out = if self.ident.unraw() == self.name {
                "; add `#[model(rename = \"…\")]`"
            } else {
                ""
            };
            problems.at_span(self.name_span, format!("{fault}{way_out}"));
        }
        if let (Some(Literal::Text(default)), Some(text)) = (&self.default, &self.text) {
            let length = default.chars().count();
            if text.chars_max != 0 && length > text.chars_max as usize {
                let most = text.chars_max;
                let default = items.iter().find(|item| item.name == "default");
                problems.at(
                    default,
                    format!("the text has {length} characters, but `max` allows {most}"),
                );
            }
        }
        let excludes = ["default", "default_expression", "immutable", "generated"];
        let is_excluded = |item: &&Item| excludes.iter().any(|name| item.name == name);
        let by = if self.computed.is_some() { "computed" } else { "generated" };
        let is_by_expression = self.computed.is_some() || self.generated.is_some();
        let is_refused = |item: &&Item| is_excluded(item) && item.name != by;
        for item in items.iter().filter(is_refused).filter(|_| is_by_expression) {
            problems.at(item, format!("the field is {by}; remove `{}`", item.name));
        }
        let (type_fits, expected) = match self.role {
            Role::Plain => return,
            Role::Key => (true, ""),
            Role::CreatedAt | Role::UpdatedAt => (
                matches!(self.shape, Shape::Timestamp | Shape::Other) && !self.optional,
                "the store sets this field: its type must be `Timestamp`",
            ),
            Role::Version => (
                matches!(self.shape, Shape::Int(i64::MIN, _) | Shape::Other) && !self.optional,
                "the store increments this field: its type must be `i64`",
            ),
        };
        if !type_fits {
            problems.at_span(self.of_span, expected);
        }
        let is_default = |item: &&Item| DEFAULTS.iter().any(|name| item.name == name);
        for item in items.iter().filter(is_default) {
            let what = format!("the store sets this field; remove `{}`", item.name);
            problems.at(item, what);
        }
        for item in items.iter().filter(|item| item.name == "immutable") {
            problems.at(item, "the store sets this field; leave `immutable` out");
        }
    }

    /// Checks the requirements for the field that is the model's key.
    pub(crate) fn check_key(&self, problems: &mut Problems) {
        if self.optional || !self.shape.may_be_key() {
            problems.at_span(
                self.of_span,
                "the type of a key must be `i64` (set by the engine), `Uuid` (set by the store) or \
                 `String` (set by the caller)",
            );
        }
        if !self.key_of.is_empty() && !matches!(self.shape, Shape::Text | Shape::Other) {
            problems.at_span(
                self.of_span,
                "a composite key is a text that the store makes of its fields: the type must be \
                 `String`",
            );
        }
        if self.unique || self.index {
            problems.at_span(
                self.name_span,
                "a key is unique and indexed already; leave `unique` and `index` out",
            );
        }
        let has_default = self.default.is_some() || self.default_expression.is_some();
        let is_computed = self.computed.is_some() || self.generated.is_some();
        if (has_default || is_computed) && self.role == Role::Plain {
            problems.at_span(self.name_span, "a key cannot have a default or be computed");
        }
        if self.immutable {
            problems.at_span(self.name_span, "a key never changes; leave `immutable` out");
        }
    }

    /// Checks that it may be a field of a composite key.
    pub(crate) fn check_in_key(&self, ident: &Ident, problems: &mut Problems) {
        if self.optional || self.role != Role::Plain {
            problems.at(ident, "a field of the key is required, and has no role");
        }
        if self.immutable {
            problems
                .at_span(self.name_span, "a field of the key never changes; leave `immutable` out");
        }
        let is_computed = self.computed.is_some() || self.generated.is_some();
        if self.default_expression.is_some() || is_computed {
            problems.at_span(self.name_span, "a field of the key has no expression");
        }
    }

    /// Returns the field's entry in the schema, as a constant expression.
    pub(crate) fn code(&self, model: &TokenStream) -> TokenStream {
        let Self { of, name, unique, search, immutable, rules, sanitizers, .. } = self;
        let role = match self.role {
            Role::Plain => quote!(Plain),
            Role::Key => quote!(Key),
            Role::CreatedAt => quote!(CreatedAt),
            Role::UpdatedAt => quote!(UpdatedAt),
            Role::Version => quote!(Version),
        };
        let value = quote_spanned!(self.error_span()=> <#of as #model::FieldValue>);
        let kind = match &self.text {
            None => quote!(#value::KIND),
            Some(Text { chars_max, collation, span }) => {
                let collation = format_ident!("{collation}");
                let span = span.resolved_at(Span::call_site());
                quote_spanned!(span=> <#of as #model::FieldValue>::KIND
                    .text_with(#chars_max, #model::Collation::#collation))
            }
        };
        let kind = match &self.file {
            None => kind,
            Some(FileLimits { bytes_max, types, span }) => {
                let span = span.resolved_at(Span::call_site());
                let bytes_max = match bytes_max {
                    Some(bytes) => quote!(#bytes),
                    None => quote!(#model::File::BYTES_MAX),
                };
                quote_spanned!(span=> <#of as #model::FieldValue>::KIND
                    .file_with(#bytes_max, &[#(::std::borrow::Cow::Borrowed(#types)),*]))
            }
        };
        let default = optional(self.default.as_ref().map(|default| default.code(model)));
        let default_expression = former(self.default_expression.as_deref());
        let computed = former(self.computed.as_deref());
        let generated = former(self.generated.as_deref());
        let was = former(self.was.as_deref());
        let on_delete = format_ident!("{}", self.on_delete);
        quote!(#model::Field {
            name: ::std::borrow::Cow::Borrowed(#name),
            kind: #kind,
            nullable: #value::NULLABLE,
            unique: #unique,
            search: #search,
            immutable: #immutable,
            on_delete: #model::OnDelete::#on_delete,
            role: #model::Role::#role,
            default: #default,
            default_expression: #default_expression,
            computed: #computed,
            generated: #generated,
            sanitizers: ::std::borrow::Cow::Borrowed(&[#(#model::Sanitizer::#sanitizers),*]),
            rules: ::std::borrow::Cow::Borrowed(&[#(#rules),*]),
            was: #was,
        })
    }

    /// Returns a span for errors about the type. The generated code is not marked as the user's
    /// code, since lints check where code comes from.
    pub(crate) fn error_span(&self) -> Span {
        self.of_span.resolved_at(Span::call_site())
    }
}

/// Returns true for a media type in lower case, whose subtype may be `*`.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        let is_allowed = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&-^_.+".contains(&byte)
        };
        !part.is_empty() && part.bytes().all(is_allowed)
    };
    text.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && (sub == "*" || is_token(sub)))
}

/// Returns the rule for `length(…)`.
fn length_rule(item: &Item, model: &TokenStream, problems: &mut Problems) -> Option<TokenStream> {
    let (min, max) = sizes(item, item.ends(problems), problems);
    Some(quote!(#model::Rule::Length { min: #min, max: #max }))
}

/// Returns the rule for `count(class, …)`.
fn count_rule(item: &Item, model: &TokenStream, problems: &mut Problems) -> Option<TokenStream> {
    let (class, ends) = item.named_ends(problems)?;
    let (min, max) = sizes(item, ends, problems);
    let variant = match class.to_string().as_str() {
        "letters" => "Letters",
        "lower" => "Lower",
        "upper" => "Upper",
        "digits" => "Digits",
        "punctuation" => "Punctuation",
        "spaces" => "Spaces",
        other => {
            let classes = "`letters`, `lower`, `upper`, `digits`, `punctuation` or `spaces`";
            problems.at(&class, format!("unknown class of characters `{other}`; use {classes}"));
            return None;
        }
    };
    let variant = format_ident!("{variant}");
    Some(quote!(#model::Rule::Count {
        class: #model::CharacterClass::#variant,
        min: #min,
        max: #max,
    }))
}

/// Returns the sizes of a range. A missing bound is 0 or `u32::MAX`.
fn sizes(item: &Item, ends: Ends, problems: &mut Problems) -> (u32, u32) {
    let mut size = |end: Option<Constant>, otherwise| match end.map(|end| (end.size(0), end)) {
        None => otherwise,
        Some((Ok(size), _)) => size,
        Some((Err(why), end)) => {
            problems.at(end, why);
            otherwise
        }
    };
    let (min, max) = (size(ends.min, 0), size(ends.max, u32::MAX));
    if min > max {
        problems.at(item, "`min` is above `max`: no value would be valid");
    }
    (min, max)
}

/// Returns the rule for `pattern = "…"`. Only the syntax is checked here; the expression is
/// compiled when the model is registered.
fn pattern_rule(item: &Item, model: &TokenStream, problems: &mut Problems) -> Option<TokenStream> {
    let text = item.text(problems)?;
    let pattern = text.value();
    // Parsed as it will be compiled, and also alone, so that `a)|(b` is refused.
    for pattern in [&pattern, &format!("^(?:{pattern})$")] {
        if let Err(error) = regex_syntax::ast::parse::Parser::new().parse(pattern) {
            let at = error.span().start.offset;
            let part: String = pattern.chars().skip(pattern[..at].chars().count()).collect();
            let place =
                if part.is_empty() { "at its end".to_owned() } else { format!("at `{part}`") };
            problems.at(&text, format!("not a regular expression: {}, {place}", error.kind()));
            return None;
        }
    }
    Some(quote!(#model::Rule::Pattern(::std::borrow::Cow::Borrowed(#pattern))))
}

/// Returns the code for the previous name of a column or table.
pub(crate) fn former(was: Option<&str>) -> TokenStream {
    optional(was.map(|was| quote!(::std::borrow::Cow::Borrowed(#was))))
}

/// Returns the code of an `Option`.
fn optional(code: Option<TokenStream>) -> TokenStream {
    match code {
        Some(code) => quote!(::std::option::Option::Some(#code)),
        None => quote!(::std::option::Option::None),
    }
}

/// Returns the code with `Self` replaced by the model's name, since `Self` is not available in a
/// `static`.
fn without_self(code: TokenStream, owner: &Ident) -> TokenStream {
    code.into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => {
                TokenTree::Ident(Ident::new(&owner.to_string(), ident.span()))
            }
            TokenTree::Group(group) => {
                let inside = without_self(group.stream(), owner);
                let mut same = proc_macro2::Group::new(group.delimiter(), inside);
                same.set_span(group.span());
                TokenTree::Group(same)
            }
            other => other,
        })
        .collect()
}
