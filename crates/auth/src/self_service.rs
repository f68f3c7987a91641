//! What people do for their accounts without an administrator: sign up, set a forgotten password, change
//! the mail address, protect the account with an app or passkeys, and export or delete their data.
//!
//! | step | file | where it runs |
//! |---|---|---|
//! | a request stores a mail that is to be sent | `request.rs` | the request |
//! | the link of the mail is made | `prepare.rs` | the job that sends it |
//! | the token of the link is used | `redeem.rs` | the request of the page that the link opens |

mod passkey_sign_in;
mod passkeys;
mod personal_data;
mod prepare;
mod profile;
mod redeem;
mod request;
mod second_factor;
mod step_up;

pub use passkeys::{AddedPasskey, PasskeyInfo};
pub use personal_data::PersonalData;
pub use request::InvitationInfo;
pub use second_factor::TotpSetup;
