//! Clients that are generated from the tables of a running server.

use std::process::Command;

use crate::server::Server;
use crate::workshop::{APP, Workshop};

fn client(language: &str, out: &str, url: &str, token: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_marmota"));
    program.args(["client", language, "--name", "shop", "--out", out, "--url", url]);
    program.env_remove("MARMOTA_API_KEY").args(["--token", token]);
    program
}

#[test]
fn a_client_of_a_running_server_is_that_of_its_file() {
    let app = APP.replace(
        "[tables.tag.fields]",
        "[tables.tag]\nrelations = { products = \"note.product\" }\n\n[tables.tag.fields]",
    );
    let workshop = Workshop::new(&app);
    let server = Server::start(workshop.path());
    let token = server.sign_in();
    for (language, file) in
        [("ts", "index.d.ts"), ("ts", "index.js"), ("python", "shop/__init__.py")]
    {
        workshop.generate(language, "file");
        workshop.succeed(&mut client(language, "server", &server.url, &token));
        let of_server = String::from_utf8(workshop.read(&format!("server/{file}"))).unwrap();
        assert!(of_server.contains("products") || file == "index.js");
        assert_eq!(of_server, String::from_utf8(workshop.read(&format!("file/{file}"))).unwrap());
    }
    let api = format!("{}/api", server.url);
    workshop.succeed(&mut client("ts", "again", &api, &token));
    let refused = workshop.execute(&mut client("ts", "refused", &server.url, "wrong"));
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("--token or MARMOTA_API_KEY"), "{error}");
}
