//! The examples of the guide's page about clients fit a client of its tables.

use crate::python::check;
use crate::typescript::compile;
use crate::workshop::Workshop;

const PAGE: &str = include_str!("../../../../docs/guide/48-clients.md");

/// Returns the examples of the page in a language.
fn examples(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    let parts = PAGE.split(&*begin).skip(1);
    parts.map(|part| part.split_once("\n```").unwrap().0).collect()
}

#[test]
fn examples_of_the_guide_pass_the_type_checkers() {
    let [app] = *examples("toml") else { panic!("the page has one file of tables") };
    let workshop = Workshop::new(app);
    workshop.write("package.json", r#"{"type":"module"}"#);
    workshop.generate("ts", "shop");
    assert_eq!(examples("ts").len(), 6);
    for example in examples("ts") {
        workshop.write("example.ts", &format!("{example}\nexport {{}}\n"));
        let compiled = compile(&workshop, "example.ts");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    }
    let workshop = Workshop::new(app);
    workshop.generate("python", ".");
    let [example] = *examples("python") else { panic!("the page has one example") };
    workshop.write("example.py", example);
    let checked = check(&workshop, "example.py");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}
