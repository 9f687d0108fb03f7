"""Whether something that a store holds got power over the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

_LOOK = r"""() => {
    const found = [];
    const tell = (what, one) => found.push(`${what}: ${one.outerHTML.slice(0, 200)}`);
    const isOwn = url => new URL(url, location).origin === location.origin;
    const all = (selector, test, what) => {
        for (const one of document.querySelectorAll(selector)) if (test(one)) tell(what, one);
    };
    if (window.pwned !== undefined || window.__pwned !== undefined) found.push("a script ran");
    all("iframe, frame, object, embed, base, style, template, #app noscript, math, video, audio",
        () => true, "an element");
    all("svg a, use, image, animate, set, foreignObject", () => true, "a part of a picture");
    all("script", one => !isOwn(one.src) || !one.src.endsWith("/app.js"), "a script");
    all("*", one => [...one.attributes].some(({name}) => /^(on.*|srcdoc|srcset|ping)$/.test(name)),
        "an attribute");
    all("a[href], area[href]", one => !["http:", "https:", "mailto:", "blob:"].includes(one.protocol),
        "a link that runs");
    all("a[href]", one => /^http/.test(one.href) && !isOwn(one.href) && !one.rel.includes("noreferrer"),
        "a link that tells where it was clicked");
    all("img", one => !/^(data:image\/(png|jpeg|gif|webp)[;,]|blob:)/.test(one.src) && !isOwn(one.src),
        "a picture from elsewhere");
    all("form[action]", one => !isOwn(one.action), "a form");
    return found;
}"""

_TURNED = r"""() => {
    const found = [];
    const texts = document.createTreeWalker(document.querySelector("#app"), NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        if (!/[\u202a-\u202e\u2066-\u2069]/.test(text.data)) continue;
        let around = text.parentElement;
        const isInside = one => {
            const style = getComputedStyle(one);
            return style.display.startsWith("inline") && !/isolate|plaintext/.test(style.unicodeBidi)
                && style.display !== "inline-block";
        };
        while (isInside(around)) around = around.parentElement;
        const others = [...around.children].filter(one => one.localName !== "mark"); // pieces of one text
        if (others.length > 0) found.push(around.outerHTML.slice(0, 300));
    }
    return found;
}"""


def harm(page: Page) -> list[str]:
    """What is on the page that must not be there."""
    return list(page.evaluate(_LOOK))


def turned_around(page: Page) -> list[str]:
    """Texts with letters that turn the direction of writing, and which are not alone in their box: they could
    turn what stands beside them as well."""
    return list(page.evaluate(_TURNED))
