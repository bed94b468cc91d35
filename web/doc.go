// Package web is the status page: whether the server holds writes back, why, and until when, with plots of the last 15
// minutes. It consists of files that are embedded as they are written, with no build step, and fetches nothing from
// elsewhere.
//
// The page runs in the browser and talks HTTP only: each second it reads GET /api/status for the figures of now and GET
// /api/history for the plots. The history is kept by the server (package ingest), so a page that is opened late shows
// what was before.
//
// All text reaches the page as text, never as HTML, and the policy that is sent along forbids scripts and styles that
// are not files of the server.
//
// It does not know the engine, and shows nothing that the API does not tell everybody with the same rights.
package web
