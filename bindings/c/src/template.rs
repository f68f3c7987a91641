//! Mustache templates (<https://mustache.github.io/mustache.5.html>), by the crate `ramhorns`.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use marmota::{Error, ErrorKind};
use ramhorns::encoding::Encoder;
use ramhorns::traits::ContentSequence;
use ramhorns::{Content, Section, Template};
use serde_json::Value;

use crate::foreign::{MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, Object};
use crate::store::lend_text_to;

struct TemplateObject(Template<'static>);

impl Object for TemplateObject {
    const KIND: u8 = 10;
    const NAME: &'static str = "template";
}

/// A value of JSON as content of a template: members are variables and sections.
struct Json<'a>(&'a Value);

impl Content for Json<'_> {
    fn is_truthy(&self) -> bool {
        match self.0 {
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty(),
            Value::String(text) => !text.is_empty(),
            _ => true,
        }
    }

    fn render_escaped<E: Encoder>(&self, encoder: &mut E) -> Result<(), E::Error> {
        match self.0 {
            Value::String(text) => encoder.write_escaped(text),
            other => self.render_plain(other, encoder),
        }
    }

    fn render_unescaped<E: Encoder>(&self, encoder: &mut E) -> Result<(), E::Error> {
        match self.0 {
            Value::String(text) => encoder.write_unescaped(text),
            other => self.render_plain(other, encoder),
        }
    }

    fn render_section<C, E>(&self, section: Section<'_, C>, encoder: &mut E) -> Result<(), E::Error>
    where
        C: ContentSequence,
        E: Encoder,
    {
        match self.0 {
            Value::Array(items) => {
                items.iter().try_for_each(|item| section.with(&Json(item)).render(encoder))
            }
            _ if self.is_truthy() => section.with(self).render(encoder),
            _ => Ok(()),
        }
    }

    fn render_field_escaped<E: Encoder>(
        &self,
        _: u64,
        name: &str,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.with_member(name, |value| value.render_escaped(encoder))
    }

    fn render_field_unescaped<E: Encoder>(
        &self,
        _: u64,
        name: &str,
        encoder: &mut E,
    ) -> Result<bool, E::Error> {
        self.with_member(name, |value| value.render_unescaped(encoder))
    }

    fn render_field_section<C, E>(
        &self,
        _: u64,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error>
    where
        C: ContentSequence,
        E: Encoder,
    {
        self.with_member(name, |value| value.render_section(section, encoder))
    }

    fn render_field_inverse<C, E>(
        &self,
        _: u64,
        name: &str,
        section: Section<'_, C>,
        encoder: &mut E,
    ) -> Result<bool, E::Error>
    where
        C: ContentSequence,
        E: Encoder,
    {
        self.with_member(name, |value| value.render_inverse(section, encoder))
    }
}

impl<'a> Json<'a> {
    /// Renders a member. Returns false if it is missing: the template takes it for false.
    fn with_member<E>(
        &self,
        name: &str,
        render: impl FnOnce(Json<'a>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.0.get(name).map_or(Ok(false), |value| render(Json(value)).map(|()| true))
    }

    /// Writes a value that is not a text: null as nothing, others as JSON.
    fn render_plain<E: Encoder>(&self, value: &Value, encoder: &mut E) -> Result<(), E::Error> {
        match value {
            Value::Null => Ok(()),
            other => encoder.write_escaped(&other.to_string()),
        }
    }
}

/// Reads a Mustache template: variables `{{name}}` (escaped for HTML) and `{{{name}}}`, sections
/// `{{#list}}…{{/list}}` and `{{^list}}…{{/list}}`, comments. It has no partials.
///
/// Ownership: free it with `marmota_template_free`.
/// Threads: the template may be used on all threads at once.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_template_new(
    source: MarmotaText,
    template: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let template = required(template, "template")?;
        let read = Template::new(source.get("source")?.to_owned()).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the template is not valid: {error}"))
        })?;
        template.write(handles::add(TemplateObject(read))?);
        Ok(())
    })
}

/// Renders a template with the members of a JSON object. `length` may be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_template_render(
    template: MarmotaHandle,
    json: MarmotaText,
    text: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let template = handles::find::<TemplateObject>(template)?;
        let content: Value = serde_json::from_str(json.get("json")?).map_err(|error| {
            Error::new(ErrorKind::Invalid, format!("the content is not JSON: {error}"))
        })?;
        lend_text_to(&template.0.render(&Json(&content)), (text, "text"), length)
    })
}

/// Frees a template.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_template_free(template: MarmotaHandle) -> i32 {
    entry(|| handles::remove::<TemplateObject>(template).map(drop))
}
