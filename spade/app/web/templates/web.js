"use strict"
// Asks for the page again when the runs have changed, and takes over the parts that differ. Texts of the runs are never
// parsed as markup here: the browser parses the server's page as a document, and runs no script of it.
const FOCUSABLE = "a, summary, button, input, select, [tabindex]"
const state = document.getElementById("state")
let asking = false, behind = false

function say(text, lost) {
  state.textContent = text
  state.classList.toggle("lost", lost)
}

function take(fresh) {
  const old = document.getElementById(fresh.id)
  const chosen = getSelection()
  if (!old || (!chosen.isCollapsed && old.contains(chosen.anchorNode))) return
  const pairs = (pattern) => [...fresh.querySelectorAll(pattern)].map((each, at) => [each, old.querySelectorAll(pattern)[at]])
  for (const [each, before] of pairs("details")) if (before) each.open = before.open
  if (old.outerHTML === fresh.outerHTML) return
  const focused = [...old.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement)
  const scrolled = pairs(".wide, pre").map(([each, before]) => [each, before?.scrollLeft, before?.scrollTop])
  old.replaceWith(document.adoptNode(fresh))
  for (const [each, left, top] of scrolled) Object.assign(each, { scrollLeft: left ?? 0, scrollTop: top ?? 0 })
  fresh.querySelectorAll(FOCUSABLE)[focused]?.focus({ preventScroll: true })
}

function refresh() {
  if (asking || !document.querySelector("[data-live]")) { behind = true; return }
  asking = true
  behind = false
  const request = new XMLHttpRequest()
  request.open("GET", location.href)
  request.responseType = "document"
  request.timeout = 30000
  request.onload = () => {
    if (request.status !== 200 || !request.response) return
    document.body.dataset.number = request.response.body.dataset.number
    for (const fresh of request.response.querySelectorAll("[data-live]")) take(fresh)
    say(`as of ${new Date().toLocaleTimeString()}`, false)
  }
  request.onloadend = () => {
    asking = false
    if (behind) setTimeout(refresh, 1000)
  }
  request.send()
}

let events
function listen() {  // a browser has few connections to a server, so a hidden page gives up its own
  events?.close()
  if (document.hidden) return
  events = new EventSource("events")
  events.onopen = () => say("connected", false)
  events.onmessage = (event) => { if (event.data !== document.body.dataset.number) refresh() }
  events.onerror = () => say("not connected", true)
}
addEventListener("visibilitychange", listen)
listen()

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return
  const target = { "[": "[rel=prev]", "]": "[rel=next]", "/": "form [name]" }[event.key]
  const found = target ? document.querySelector(target) : document.querySelectorAll(".top nav a")[Number(event.key) - 1]
  if (!found) return
  event.preventDefault()
  if (found.matches("a")) found.click()
  else found.focus()
})
