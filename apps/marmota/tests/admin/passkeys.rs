//! Passkeys with an authenticator of Chromium's: added, used alone and after the password, and removed.

use std::net::TcpListener;

use serde_json::json;

use crate::browser::{Browser, Driver, Look, run};
use crate::program::Program;

const PASSWORD: &str = "correct horse battery";

/// Signs out, so that the page for signing in does not offer a passkey by itself.
async fn sign_out(page: &Browser) {
    page.run("localStorage.removeItem('marmota-passkey')").await;
    page.press("Sign out").await;
    page.shows("Email address or name").await;
}

#[test]
fn a_person_signs_in_with_a_passkey() {
    // Passkeys are bound to the origin, so the port is chosen before the start.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let origin = format!("http://localhost:{port}");
    let program = Program::start(&[
        "--auth",
        "--passkeys",
        &format!("--listen=127.0.0.1:{port}"),
        &format!("--public-url={origin}"),
    ]);
    let link = program.address_with("#/set-password");
    let token = link.rsplit('/').next().unwrap();
    let body = json!({ "name": "admin", "token": token, "password": PASSWORD });
    ureq::post(&format!("{origin}/api/auth/set-password")).send_json(body).unwrap();
    let driver = Driver::start();
    run(async {
        let page = driver.browser(Look::Light).await;
        page.add_authenticator().await;
        page.open(&format!("{origin}/account")).await;
        let sign_in = async || {
            page.fill("Email address or name", "admin").await;
            page.fill("Password", PASSWORD).await;
            page.press("Sign in").await;
        };
        page.is_accessible("passkeys-sign-in").await;
        sign_in().await;
        page.shows("Your account").await;
        page.fill("Name of the passkey", "phone").await;
        page.press("Add a passkey").await;
        page.shows("Recovery codes").await;
        page.press("Continue").await;
        page.shows("10 recovery codes are left").await;
        page.is_accessible("passkeys").await;
        page.press("Rename phone").await;
        page.fill("Name", "laptop").await;
        page.is_accessible("passkeys-rename").await;
        page.press("Save").await;
        page.press("Remove laptop").await;
        page.press("Cancel").await;

        // Alone, without a name.
        sign_out(&page).await;
        page.press("Sign in with a passkey").await;
        page.shows("Your account").await;
        // After the password.
        sign_out(&page).await;
        sign_in().await;
        page.shows("From your authenticator app").await;
        page.is_accessible("passkeys-second-factor").await;
        page.press("Use a passkey").await;
        page.shows("Your account").await;
        sign_out(&page).await;
        page.shows("Sign in with a passkey").await;
        // From the suggestions of the field of the name. The authenticator of Chromium chooses at once.
        page.run("localStorage.setItem('marmota-passkey', 'yes')").await;
        page.open("about:blank").await;
        page.open(&format!("{origin}/account")).await;
        page.shows("Your account").await;
        sign_out(&page).await;
        // In the administration.
        page.open("about:blank").await;
        page.open(&format!("{origin}/admin")).await;
        page.press("Sign in with a passkey").await;
        page.shows("All tables").await;

        page.open("about:blank").await;
        page.open(&format!("{origin}/account")).await;
        page.press("Remove laptop").await;
        page.press("Remove").await;
        page.shows("The passkey was removed").await;
        sign_out(&page).await;
        page.press("Sign in with a passkey").await;
        page.shows("not known here").await;
        // The password is sufficient again.
        sign_in().await;
        page.shows("Your account").await;
        page.loads_nothing_foreign().await;
        page.close().await;
    });
}
