// The libraries, put together once.
import { Component, h, render } from './preact.js';
import htm from './htm.js';

export { Component, render };
export const html = htm.bind(h);
