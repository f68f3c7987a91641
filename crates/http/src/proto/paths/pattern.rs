//! The syntax of route patterns: `/tasks/{id:int}/files/{rest:path}`.

/// A segment of a pattern.
pub(super) enum Segment<'a> {
    /// Text that the path must have.
    Constant(&'a str),
    /// A parameter, with its name and kind.
    Param(&'a str, Kind),
}

/// The kind of a parameter.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// An integer: an optional minus and up to 19 digits.
    Int,
    /// A UUID in its form with hyphens.
    Uuid,
    /// A segment that is not empty.
    Text,
    /// The rest of the path, with its slashes.
    Rest,
}

/// Splits a pattern into its segments.
pub(super) fn segments(pattern: &str) -> Result<Vec<Segment<'_>>, String> {
    let path = pattern.strip_prefix('/').ok_or("a pattern must start with a slash")?;
    let mut segments = Vec::new();
    for part in path.split('/') {
        if let Some(Segment::Param(_, Kind::Rest)) = segments.last() {
            return Err("a parameter of the kind path must be the last segment".to_owned());
        }
        segments.push(segment(part)?);
    }
    Ok(segments)
}

/// Parses a segment of a pattern: a constant, `{name}` or `{name:kind}`.
fn segment(part: &str) -> Result<Segment<'_>, String> {
    let Some(inner) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) else {
        if part.contains(['{', '}', '%', '?', '#']) {
            return Err(format!(
                "{part:?} is neither a constant (not percent-encoded) nor {{name}} or {{name:kind}}"
            ));
        }
        return Ok(Segment::Constant(part));
    };
    let (name, kind) = inner.split_once(':').unwrap_or((inner, "text"));
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(format!(
            "{name:?} is not a valid name of a parameter: use letters, digits and _"
        ));
    }
    let kind = match kind {
        "text" => Kind::Text,
        "int" => Kind::Int,
        "uuid" => Kind::Uuid,
        "path" => Kind::Rest,
        _ => {
            return Err(format!(
                "{kind:?} is not a kind of parameter: use int, uuid, text or path"
            ));
        }
    };
    Ok(Segment::Param(name, kind))
}
