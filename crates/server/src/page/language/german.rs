//! German.

use crate::page::number::grouped;
use crate::page::texts::Texts;

pub(crate) static GERMAN: Texts = Texts {
    thousands: '.',

    // The frame.
    lang: "de",
    skip: "Zum Inhalt springen",
    nav_label: "Seiten",
    imprint: "Impressum",
    privacy: "Datenschutz",
    nav_search: "Suchen",
    nav_upload: "Hochladen",
    nav_statistics: "Statistik",
    nav_peers: "Partner",
    nav_manage: "Bestätigte Adressen verwalten",
    footer: "Der Name auf einem Zertifikat ist eine Behauptung, kein Beweis: Jeder kann ein Zertifikat mit beliebigem Namen hochladen.",
    software: "Software:",
    contact: "Kontakt:",

    // The start page and the search form.
    home_title: "OpenPGP-Zertifikate finden",
    home_lead: "Öffentliche Schlüssel von Menschen, denen Sie schreiben oder deren Signaturen Sie prüfen wollen.",
    home_count: "Zertifikate auf diesem Schlüsselserver",
    home_trust_title: "Fingerabdruck vergleichen",
    home_trust: "Bevor Sie sich auf ein Zertifikat verlassen, vergleichen Sie seinen Fingerabdruck mit dem, den Sie vom Besitzer selbst haben: persönlich, auf Papier, am Telefon.",
    home_publish_title: "Eigenes veröffentlichen",
    home_publish: "Andere finden hier Ihr Zertifikat und erfahren, wenn Sie es verlängern oder widerrufen. Was einmal veröffentlicht ist, bleibt öffentlich.",
    home_gnupg_title: "Auf der Kommandozeile",
    home_gnupg: "GnuPG und andere Programme fragen diesen Server direkt.",
    search_label: "Name, E-Mail-Adresse, Fingerabdruck oder Schlüssel-ID",
    search_button: "Suchen",
    search_hint: "Zum Beispiel alice@example.org, Alice Schmidt oder ein Fingerabdruck mit 40 Ziffern.",
    search_hint_exact: "Eine ganze Adresse wie alice@example.org oder ein Fingerabdruck mit 40 Ziffern. Dieser Server sucht nicht nach Teilen von Namen.",
    suggest_found: "Vorschläge: Mit den Pfeiltasten auswählen.",
    suggest_none: "Keine Vorschläge.",

    // The results of a search.
    results_title: |text| format!("Suche nach „{text}“"),
    results_for: "Zertifikate zu",
    found: |n| {
        if n == 1 {
            "1 Zertifikat wurde gefunden.".into()
        } else {
            format!("{} Zertifikate wurden gefunden.", grouped(n, '.'))
        }
    },
    ambiguous: "Mehrere benutzbare Zertifikate passen, und jeder kann eines mit beliebigem Namen hochladen. Nehmen Sie das, dessen Fingerabdruck Sie vom Besitzer selbst haben.",
    several: "Mehrere Zertifikate passen, und jeder kann eines mit beliebigem Namen hochladen: Ein benutzbares muss nicht echt sein. Nehmen Sie das, dessen Fingerabdruck Sie vom Besitzer selbst haben, und keines, das widerrufen oder abgelaufen ist.",
    no_name: "(keine Benutzerkennung)",
    other_names: "Weitere Benutzerkennungen",
    more: |n| format!("und {} weitere, nicht gezeigt", grouped(n, '.')),
    whole_text: |n| format!("Ganzer Text ({} Zeichen)", grouped(n, '.')),
    narrow: "Nur mit einer Adresse bei:",
    result_pages: "Seiten mit Treffern",
    page_of: |page, pages| format!("Seite {page} von {pages}"),
    previous: "Zurück",
    next: "Weiter",

    // States and times.
    valid: "Benutzbar",
    expired: "Abgelaufen",
    revoked: "Widerrufen",
    invalid: "Nicht benutzbar",
    unchecked: "Nicht geprüft",
    valid_means: "Weder abgelaufen noch widerrufen. Ob der Name echt ist, sagt das nicht.",
    address_confirmed: "Adresse bestätigt",
    confirmed_means: "Jemand, der die Mails an diese Adresse liest, hat sie auf diesem Server bestätigt.",
    name_unverified: "Den Namen hat dieser Server nicht geprüft: Jeder kann ein Zertifikat mit beliebigem Namen hochladen.",
    names_confirmed: |n| {
        if n == 1 {
            "Jemand, der die Mails an eine der Adressen liest, hat sie auf diesem Server bestätigt. Die Namen sind nicht geprüft.".into()
        } else {
            format!(
                "Jemand, der die Mails an {n} der Adressen liest, hat sie auf diesem Server bestätigt. Die Namen sind nicht geprüft."
            )
        }
    },
    created: "Erzeugt",
    expires: "Läuft ab",
    never: "nie",
    now: "heute",
    since: "Seit",
    revoked_on: "Widerrufen",
    reason: "Angegebener Grund",
    reason_code: |code| match code {
        0 => "keiner",
        1 => "durch einen anderen Schlüssel ersetzt",
        2 => "der geheime Schlüssel kann in fremden Händen sein",
        3 => "nicht mehr benutzt",
        32 => "die Benutzerkennung stimmt nicht mehr",
        _ => "ein anderer",
    },
    on_day: "am",

    // A certificate.
    fingerprint: "Fingerabdruck",
    algorithm: "Verfahren",
    compare: "Vergleichen Sie ihn mit dem, was Sie vom Besitzer haben. Nur wenn alle Ziffern gleich sind, ist es sein Zertifikat.",
    copy: "Kopieren",
    copied: "Kopiert",
    qr_title: "QR-Code des Fingerabdrucks",
    qr_caption: "Mit einer OpenPGP-App lesen",
    download_armored: "Herunterladen (.asc)",
    download_binary: "Binär (.pgp)",
    fetch: "Oder so holen:",
    armor: "Als Text",
    expired_means: "Dieses Zertifikat ist abgelaufen. Verschlüsseln Sie nicht mehr damit. Der Besitzer kann es verlängern: Fragen Sie nach einer neueren Fassung.",
    expired_on: "Abgelaufen am",
    revoked_means: "Benutzen Sie dieses Zertifikat nicht mehr.",
    revoked_by_owner: "Vom Besitzer widerrufen",
    revoked_by_other: "Widerrufen von einem Schlüssel, den der Besitzer dafür benannt hat,",
    further: |n| format!("{} weitere", grouped(n, '.')),
    older_parts: |n| {
        if n == 1 {
            "1 weiterer Teil, jetzt nicht benutzbar".into()
        } else {
            format!("{} weitere Teile, jetzt nicht benutzbar", grouped(n, '.'))
        }
    },
    other_parts: |n| {
        if n == 1 { "1 weiterer Teil".into() } else { format!("{} weitere Teile", grouped(n, '.')) }
    },
    invalid_means: "Dieses Zertifikat ist nicht benutzbar: Auf dem Hauptschlüssel und den Benutzerkennungen ist keine gute Signatur des Besitzers bekannt, die jetzt zählt.",
    short_means: |bits| {
        format!(
            "Dieses Zertifikat ist nicht benutzbar: Sein Hauptschlüssel hat nur {bits} Bit. Der Besitzer braucht einen neuen Schlüssel."
        )
    },
    no_user_id_means: "Dieses Zertifikat ist nicht benutzbar: Alle Benutzerkennungen sind widerrufen oder abgelaufen. Der Besitzer kann eine davon neu signieren: Fragen Sie ihn nach einer neueren Fassung.",
    weak_means: |hash| {
        format!(
            "Dieses Zertifikat ist nicht benutzbar: Die Signaturen des Besitzers sind mit {hash} gemacht, und das ist gebrochen. Der Besitzer kann es neu signieren: Fragen Sie ihn nach einer neueren Fassung. Die neueste dieser Signaturen ist vom"
        )
    },
    signed_ahead_means: "Die Signaturen des Besitzers auf diesem Zertifikat haben ein Datum in der Zukunft. Vorher benutzen Programme es nicht:",
    signed_before_means: "Die Signaturen des Besitzers auf diesem Zertifikat sind älter als sein Schlüssel. Programme erkennen sie nicht an.",
    future_means: "Das Datum dieses Zertifikats liegt in der Zukunft. Vorher benutzen Programme es nicht.",
    no_encryption_means: "An dieses Zertifikat kann jetzt nichts verschlüsselt werden: Die Schlüssel dafür sind abgelaufen oder widerrufen. Bitten Sie den Besitzer um eine neuere Fassung.",
    user_ids: "Benutzerkennungen",
    not_checked: "Hier nicht geprüft",
    not_checked_means: "Dieser Server kennt das Verfahren des Hauptschlüssels nicht und kann darum keine Signatur des Besitzers prüfen. Namen, Ablaufdatum und Widerruf sind ihm unbekannt. Er behält das Zertifikat für andere Schlüsselserver und gibt nur den Hauptschlüssel heraus.",
    not_checked_user_ids: "Dieser Server kann nicht prüfen, welche Benutzerkennungen zu dem Schlüssel gehören.",
    no_user_ids: "Es kann keine Benutzerkennung gezeigt werden.",
    primary: "wichtigste",
    attribute: |n| format!("Foto oder anderes Merkmal ({} Bytes)", grouped(n, '.')),
    same_address: "Andere mit dieser Adresse",
    keys: "Schlüssel",
    primary_key: "Hauptschlüssel",
    subkey: "Unterschlüssel",
    certify: "beglaubigen",
    sign: "signieren",
    encrypt: "verschlüsseln",
    authenticate: "anmelden",
    timeline: "Im Lauf der Zeit",
    timeline_title: "Wann Schlüssel und Benutzerkennungen entstanden und wann sie enden; die Daten stehen in den Listen darunter",

    // Signatures of others.
    signatures: |n| {
        if n == 1 {
            "1 Signatur anderer".into()
        } else {
            format!("{} Signaturen anderer", grouped(n, '.'))
        }
    },
    signatures_unchecked: "Signaturen anderer werden gezeigt, wie sie hochgeladen wurden, und hier nicht geprüft; die Namen sind die, die dieser Server zu dem Schlüssel kennt.",
    signatures_verified: "Diese Signaturen hat der Server mit den Schlüsseln der Unterzeichner geprüft, oder der Besitzer des Zertifikats hat sie bestätigt. Widerrufe im Namen eines vom Besitzer Bevollmächtigten können ungeprüft sein. Die Namen der Unterzeichner sind nicht geprüft.",
    signer: "Von",
    signature_kind: "Art",
    signature_date: "Datum",
    signature_certifies: "Beglaubigung",
    signature_revokes: "Widerruf",
    signature_direct: "zum Schlüssel",
    trust_depth: |n| format!("Vertrauen, Tiefe {n}"),
    unknown_signer: "nicht auf diesem Server",
    unnamed_signer: "nicht genannt",

    // Uploading.
    upload_title: "Zertifikat hochladen",
    upload_lead: "Ihr öffentliches Zertifikat oder eine neuere Fassung davon: mit neuem Ablaufdatum, neuer Adresse, einem Widerruf.",
    upload_warning: "Was Sie hochladen, wird öffentlich, mit Namen und Adressen, und an andere Schlüsselserver weitergegeben. Es lässt sich nicht überall zurückholen. Laden Sie nur eigene Zertifikate hoch.",
    upload_paste_title: "Einfügen",
    upload_paste_label: "Zertifikat als Text",
    upload_file_title: "Datei wählen",
    upload_file_label: "Datei mit Zertifikaten, als Text oder binär",
    upload_limit: |n| format!("Höchstens {n} MiB."),
    upload_button: "Hochladen",
    upload_export_title: "Exportieren mit GnuPG",
    upload_closed: "Dieser Server nimmt nichts entgegen.",
    uploaded_title: "Danke, angekommen",
    not_uploaded_title: "Nichts wurde angenommen",
    report_new: "Neu",
    report_new_says: "Diese Zertifikate waren hier nicht bekannt.",
    report_updated: "Ergänzt",
    report_updated_says: "In ihnen war etwas Neues.",
    report_unchanged: "Unverändert",
    report_unchanged_says: "Alles davon war schon hier.",
    report_for_peers: "Für andere Schlüsselserver behalten",
    report_for_peers_says: "Dieser Server kann die Signaturen auf diesen Zertifikaten nicht prüfen. Andere Schlüsselserver bekommen sie von hier; unter ihrem Namen werden sie nicht gefunden.",
    report_refused: "Abgelehnt",
    report_refused_says: "Diese wurden nicht angenommen, aus diesen Gründen.",
    back_to_upload: "Noch eines hochladen",
    confirm_heading: "Adressen bestätigen",
    confirm_offer: "Programme, die nach bestätigten Adressen fragen, finden Ihr Zertifikat unter einer Adresse, sobald Sie sie bestätigt haben. Sie bekommen eine Mail mit einem Link.",
    confirm_found_by_all: "Suchen auf diesem Server finden Ihr Zertifikat unter jeder Adresse darin, bestätigt oder nicht.",
    confirm_send: "Mails senden",

    // Statistics.
    statistics_title: "Statistik",
    counted_at: "Gezählt um",
    counting: "Die Zertifikate werden gerade gezählt; laden Sie die Seite gleich noch einmal.",
    certificates: "Zertifikate",
    subkeys: "Unterschlüssel",
    all_signatures: "Signaturen",
    growth: "Änderungen",
    chart_growth: "Neue und ergänzte Zertifikate pro Tag",
    contents: "Was hier ist",
    chart_validity: "Nach Zustand",
    chart_algorithms: "Hauptschlüssel nach Verfahren",
    chart_sizes: "Hauptschlüssel nach Länge",
    chart_years: "Hauptschlüssel nach Jahr der Erzeugung",
    requests: "Anfragen",
    chart_requests_day: "Nach Tag und Art",
    chart_requests_kind: "Seit dem Start des Servers",
    day: "Tag",
    year: "Jahr",
    state: "Zustand",
    kind: "Art",
    key_size: "Länge",
    as_table: "Als Tabelle",
    nothing_yet: "Noch nichts.",
    operated_by: "Zertifikat des Betreibers",
    for_programs: "Für Programme",

    // Peers.
    peers_title: "Partner",
    peers_lead: "Schlüsselserver, mit denen dieser Zertifikate austauscht.",
    peers_none: "Dieser Server tauscht mit keinem anderen Zertifikate aus.",
    peer_name: "Server",
    peer_state: "Zustand",
    peer_view: "Sicht",
    peer_last: "Letzter Austausch",
    peer_exchanges: "Austausche",
    peer_failures: "Fehlschläge",
    peer_learnt: "Erfahren von",
    peer_fetched: "Geholt",
    peer_error: "Letzter Fehler",
    peer_good: "In Kontakt",
    peer_failing: "Gestört",
    peer_waiting: "Noch nicht",

    // For operators.
    operator_title: "Betrieb",
    health: "Befinden",
    last_change: "Letzte Änderung",
    uptime: "Läuft seit",
    days_hours: |days, hours, minutes| format!("{days} T. {hours} Std. {minutes} Min."),
    memory: "Speicher",
    commits: "Schreibvorgänge seit dem Start",
    writes_waiting: "Wartende Schreibvorgänge",
    unobtainable: "Zertifikate, die Partner nicht geben konnten",
    views: "Sichten",
    digests: "Prüfsummen",
    counters: "Zähler",
    settings: "Geltende Einstellungen",
    settings_show: "Zeigen",

    // Errors.
    status: |status| format!("Status {status}"),
    searched_for: "Sie suchten",
    detail: "Im Einzelnen:",
    back_to_search: "Zur Suche",
    nothing_title: "Es wurde kein Zertifikat gefunden",
    nothing_advice: "Prüfen Sie die Schreibweise, suchen Sie nach der Adresse statt nach dem Namen, oder fragen Sie den Besitzer nach dem Fingerabdruck. Nicht alle veröffentlichen ihr Zertifikat hier.",
    missing_title: "Hier ist nichts",
    missing_advice: "Diese Seite gibt es nicht, oder kein Zertifikat mit diesem Fingerabdruck.",
    found_more: |n| {
        format!(
            "Weitere Zertifikate passen. Nur die ersten {} werden gezeigt. Fügen Sie ein Wort hinzu, oder suchen Sie nach einer ganzen Adresse oder einem Fingerabdruck.",
            grouped(n, '.')
        )
    },
    found_more_of_address: |n| {
        format!(
            "Weitere Zertifikate haben diese Adresse, und jeder kann eines mit beliebiger Adresse hochladen. Nur die ersten {} werden gezeigt. Suchen Sie nach dem Fingerabdruck, den Sie vom Besitzer haben.",
            grouped(n, '.')
        )
    },
    too_large_title: "Das war zu viel",
    too_large_advice: "Senden Sie weniger Zertifikate auf einmal.",
    slow_down_title: "Zu viele Anfragen",
    slow_down_advice: |n| {
        format!("Aus Ihrem Netz kamen zu viele Anfragen. Versuchen Sie es in {n} Sekunden wieder.")
    },
    bad_search_title: "Danach lässt sich nicht suchen",
    bad_search_advice: "Suchen Sie nach einem Namen, einer ganzen Adresse, einer Schlüssel-ID mit 16 Ziffern oder einem Fingerabdruck mit 40 oder 64 Ziffern.",
    bad_request_title: "Die Anfrage passt hier nicht",
    bad_request_advice: "Gehen Sie zurück und versuchen Sie es anders.",
    malformed_title: "Darin war kein Zertifikat",
    secret_title: "Das ist ein geheimer Schlüssel",
    secret_advice: "Der Server hat ihn nicht behalten, aber er hat Ihren Rechner verlassen. Senden Sie nur das öffentliche Zertifikat: „gpg --armor --export ADRESSE“, ohne „secret“. Wenn der Schlüssel keine gute Passphrase hatte oder jemand die Verbindung mitlesen konnte, erzeugen Sie einen neuen und widerrufen Sie diesen.",
    malformed_advice: "Ein Zertifikat als Text beginnt mit „-----BEGIN PGP PUBLIC KEY BLOCK-----“. Senden Sie es ganz, mit allen Zeilen.",
    forbidden_title: "Das ist Ihnen nicht zugänglich",
    forbidden_advice: "Der Betreiber dieses Servers hat es geschlossen.",
    damaged_title: "Der Speicher dieses Servers ist gestört",
    damaged_advice: "Die Kopie auf diesem Server ist beschädigt, oder seine Platte hat einen Fehler. Ein neuer Versuch hilft nicht. Andere Schlüsselserver haben das Zertifikat vielleicht. Der Betreiber findet die Ursache im Log des Servers.",
    full_title: "Die Platte dieses Servers ist voll",
    full_advice: "Was Sie hochgeladen haben, wurde nicht gespeichert, weil der Server keinen Platz dafür hat. Suchen gehen weiterhin. Nehmen Sie einen anderen Schlüsselserver, oder sagen Sie es dem Betreiber.",
    unavailable_title: "Gerade nicht",
    unavailable_advice: "Der Server kann das im Moment nicht beantworten. Versuchen Sie es in einigen Minuten wieder.",
};
