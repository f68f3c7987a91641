//! Checks that each option of the library has a key in `marmota.toml`, or a reason why it has none: the
//! page of the guide about settings names the methods of all builders.

use std::fs;

use super::markdown::Markdown;
use crate::step::{Failure, root};

const PAGE: &str = "docs/guide/51-settings.md";

/// The builders, and the files with their methods.
const BUILDERS: [(&str, &str); 14] = [
    ("Server", "crates/http/src/server/settings.rs"),
    ("Tls", "crates/http/src/socket/tls.rs"),
    ("Acme", "crates/http/src/socket/tls/acme.rs"),
    ("Cors", "crates/http/src/middleware/cors.rs"),
    ("SecurityHeaders", "crates/http/src/middleware/security_headers.rs"),
    ("StoreBuilder", "crates/store/src/builder.rs"),
    ("ChangeRetention", "crates/store/src/layers/feed/options.rs"),
    ("Api", "crates/rest/src/api.rs"),
    ("Settings", "crates/auth/src/settings.rs"),
    ("FileOptions", "crates/files/src/options.rs"),
    ("WebhookOptions", "crates/webhooks/src/worker.rs"),
    ("ReplicationOptions", "crates/replication/src/options.rs"),
    ("McpOptions", "crates/mcp/src/options.rs"),
    ("AgentRoute", "crates/mcp/src/agent_route.rs"),
];

/// Adds a fault for each method that the page does not name.
pub(super) fn check(faults: &mut Vec<String>) -> Result<(), Failure> {
    let page = Markdown::parse(&fs::read_to_string(root().join(PAGE))?);
    for (builder, file) in BUILDERS {
        let source = fs::read_to_string(root().join(file))?;
        for method in methods(&source) {
            let is_named = |(_, code): &(usize, String)| names(code, builder, method);
            if !page.code.iter().any(is_named) {
                faults.push(format!("{PAGE} has no key for {builder}::{method}, and no reason"));
            }
        }
    }
    Ok(())
}

/// Returns the public methods that take the builder and return it.
fn methods(source: &str) -> impl Iterator<Item = &str> {
    source.lines().enumerate().filter_map(|(number, line)| {
        let method = line.strip_prefix("    pub ")?;
        let method = method.strip_prefix("const ").unwrap_or(method).strip_prefix("fn ")?;
        let name = method.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        let signature = source.lines().skip(number).take_while(|line| *line != "    }");
        let signature: Vec<&str> = signature.collect();
        let signature = signature.join(" ");
        let (signature, _) = signature.split_once('{')?;
        (signature.contains("self,") || signature.contains("self)"))
            .then_some(signature)?
            .contains("-> Self")
            .then_some(name)
    })
}

/// Returns true for `Builder::method`, and for a key that contains the words of the method:
/// `session_idle_minutes` for `session_idle`.
fn names(code: &str, builder: &str, method: &str) -> bool {
    code == format!("{builder}::{method}")
        || format!("_{code}_").contains(&format!("_{method}_")) && !code.contains("::")
}

#[cfg(test)]
mod tests {
    use super::{methods, names};

    #[test]
    fn methods_of_builders_are_found() {
        let source = "    pub fn new() -> Self {\n    }\n    pub const fn age(mut self, time: u64) -> Self {\n    }\n    \
                      pub fn actor(\n        mut self,\n    ) -> Self {\n    }\n    pub fn open(self) -> Store {\n    }\n";
        assert_eq!(methods(source).collect::<Vec<_>>(), ["age", "actor"]);
    }

    #[test]
    fn a_key_names_a_method_by_whole_words() {
        assert!(names("session_idle_minutes", "Settings", "session_idle"));
        assert!(names("Settings::title", "Settings", "title"));
        assert!(!names("subtitles", "Settings", "title"));
        assert!(!names("Server::title", "Settings", "title"));
    }
}
