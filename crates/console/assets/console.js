// What pages gain from a script: they keep up to date, ask in dialogs, and remember a theme.
// Everything works without it as well.
'use strict';

// Colours first: this runs before the page is drawn.
const THEMES = ['system', 'dark', 'light'];
const kept = () => {
  try {
    return THEMES.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'system';
  } catch {
    return 'system';
  }
};
const paint = (theme) => {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
};
paint(kept());

const UPDATE_MS = 4000;
let paused = false;
let updating = false;

// Makes `old` look like `fresh` by changing as little as possible, so that focus, scrolling, selections, what is
// typed and what is open stay. Elements with ids are matched by them, others by their place.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.matches('dialog, [data-keep]')) return;
  if (old.isEqualNode(fresh)) return;
  const stays = old.matches('details') ? ['open'] : old.matches('input, select, textarea, option') ? ['value', 'checked', 'selected'] : [];
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !stays.includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !stays.includes(name)) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const named = new Map();
  for (const child of old.children) if (child.id) named.set(child.id, child);
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const match = wanted.id ? named.get(wanted.id) : undefined;
    if (match && match !== at) old.insertBefore(match, at);
    if (match) at = match;
    if (!at || (!match && (at.id || wanted.id))) {
      old.insertBefore(wanted, at);
      continue;
    }
    const next = at.nextSibling;
    morph(at, wanted);
    at = next;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// The page's address without what a form left there, which is told once.
function address() {
  const url = new URL(location.href);
  url.searchParams.delete('done');
  url.searchParams.delete('n');
  url.hash = '';
  return url;
}

function stale(is) {
  const note = document.getElementById('stale');
  note.hidden = !is;
  note.textContent = is ? 'The house does not answer: this may be out of date.' : '';
}

async function update() {
  const live = document.getElementById('live');
  const busy = paused || updating || document.hidden || document.querySelector('dialog[open]');
  if (!live || busy || live.querySelector('form.question, form.sign-in')) return;
  updating = true;
  try {
    const answer = await fetch(address(), { headers: { accept: 'text/html' }, cache: 'no-store' });
    if (answer.redirected) {
      location.reload();
      return;
    }
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const fresh = page.getElementById('live');
    if (fresh && !document.querySelector('dialog[open]')) morph(live, fresh);
    stale(false);
  } catch {
    // The house may be restarting; the next round tells.
    stale(true);
  } finally {
    updating = false;
  }
}

// Shows the form of a question's own page in a dialog.
async function ask(link) {
  let page;
  try {
    const answer = await fetch(link.href, { headers: { accept: 'text/html' } });
    if (!answer.ok || answer.redirected) throw new Error('no question');
    page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  } catch {
    location.assign(link.href);
    return;
  }
  const form = page.querySelector('form.question');
  if (!form) {
    location.assign(link.href);
    return;
  }
  const dialog = document.createElement('dialog');
  const title = document.createElement('h2');
  title.id = 'dialog-title';
  title.textContent = page.querySelector('h1').textContent;
  dialog.setAttribute('aria-labelledby', title.id);
  dialog.append(title, form);
  dialog.addEventListener('close', () => {
    dialog.remove();
    link.focus();
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog || event.target.closest('[data-close]')) {
      event.preventDefault();
      dialog.close();
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener('click', (event) => {
  const link = event.target.closest('a[data-confirm]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  ask(link);
});

document.addEventListener('DOMContentLoaded', () => {
  const theme = document.getElementById('theme');
  const name = () => {
    theme.textContent = `Theme: ${kept()}`;
  };
  theme.hidden = false;
  name();
  theme.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(kept()) + 1) % THEMES.length];
    try {
      localStorage.setItem('theme', next);
    } catch {
      // Then it is forgotten with the page.
    }
    paint(next);
    name();
  });

  const updates = document.getElementById('updates');
  updates.hidden = false;
  updates.addEventListener('click', () => {
    paused = !paused;
    updates.setAttribute('aria-pressed', String(paused));
    update();
  });

  // On a phone the parts of the house scroll sideways; the current one is always in sight.
  document.querySelector('nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });

  // What was done is said once: going back or reloading does not say it again.
  if (location.search.includes('done=')) history.replaceState(null, '', address());
  setInterval(update, UPDATE_MS);
  document.addEventListener('visibilitychange', update);
});
