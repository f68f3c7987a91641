//! Names in SQL, and the actions of references.

use marmota_model::OnDelete;

/// Returns a quoted name.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The shortest limit of a name, that of PostgreSQL: it truncates longer names.
const NAME_BYTES_MAX: usize = 63;

/// Returns a name within the limit of database servers: the end of a longer one is replaced by a
/// hash.
#[must_use]
pub fn bounded(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let hash = hash(name);
    let mut end = NAME_BYTES_MAX - 17;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{hash:016x}", &name[..end])
}

/// Returns the FNV-1a hash of a text, which is the same in every build.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the action of a reference as SQL, to follow `REFERENCES …`; empty for the default.
#[must_use]
pub const fn on_delete(action: OnDelete) -> &'static str {
    match action {
        OnDelete::Restrict => "",
        OnDelete::Cascade => " ON DELETE CASCADE",
        OnDelete::SetNull => " ON DELETE SET NULL",
    }
}

/// Returns the action that a database reports as `CASCADE` or `SET NULL`; [`OnDelete::Restrict`] for
/// any other.
#[must_use]
pub fn on_delete_of(action: &str) -> OnDelete {
    match action {
        _ if action.eq_ignore_ascii_case("CASCADE") => OnDelete::Cascade,
        _ if action.eq_ignore_ascii_case("SET NULL") => OnDelete::SetNull,
        _ => OnDelete::Restrict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        assert_eq!(quoted("plain"), "\"plain\"");
        assert_eq!(quoted("a\"; DROP"), "\"a\"\"; DROP\"");
    }

    #[test]
    fn long_names_stay_apart() {
        let name = |end: &str| bounded(&format!("{}{end}", "é".repeat(40)));
        assert!(name("a") != name("b") && name("a").len() <= NAME_BYTES_MAX);
        assert_eq!(bounded("unique:t:a"), "unique:t:a");
    }
}
