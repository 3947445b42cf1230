// Swagger UI over the application's own OpenAPI document; its dark mode follows the theme of the page.
"use strict";

(() => {
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const followTheme = () =>
    root.classList.toggle("dark-mode", root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  const container = document.getElementById("api-docs");
  followTheme();
  document.addEventListener("themechange", followTheme);
  SwaggerUIBundle({
    domNode: container,
    url: container.dataset.openapi,
    defaultModelsExpandDepth: 0, // the list of schemas starts closed
    validatorUrl: null, // else it would ask a public server
  });
})();
