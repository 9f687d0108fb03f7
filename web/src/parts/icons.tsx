// Small drawings of strokes, in the colour of the text. They are for the eye: what they stand on has a name.
import type { JSX } from "preact";

function icon(path: string): () => JSX.Element {
  return () => (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

export const SidebarIcon = icon("M4 5h16v14H4zM9.5 5v14");
export const PanelIcon = icon("M4 5h16v14H4zM14.5 5v14");
export const SearchIcon = icon("M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13M15.3 15.3 20 20");
export const SessionsIcon = icon("M5 6h14M5 12h14M5 18h9");
export const UsageIcon = icon("M5 20V11M12 20V4M19 20v-6");
export const SunIcon = icon("M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8M12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M18.7 5.3l-1.4 1.4M6.7 17.3l-1.4 1.4");
export const MoonIcon = icon("M19.5 14A8 8 0 0 1 10 4.5a8 8 0 1 0 9.5 9.5");
export const AutoIcon = icon("M12 4a8 8 0 1 1 0 16zM12 4a8 8 0 0 0 0 16");
export const PersonIcon = icon("M12 4a4 4 0 1 1 0 8 4 4 0 0 1 0-8M4.5 20c1-4 4-5.5 7.5-5.5s6.5 1.5 7.5 5.5");
export const CopyIcon = icon("M9 9h11v11H9zM15 9V4H4v11h5");
export const CheckIcon = icon("M5 13l4.5 4.5L19 7");
export const DownloadIcon = icon("M12 4v11M7 10.5l5 5 5-5M5 20h14");
export const ShareIcon = icon("M10 14a4 4 0 0 0 6 .5l3-3a4 4 0 0 0-5.7-5.7l-1.5 1.5M14 10a4 4 0 0 0-6-.5l-3 3a4 4 0 0 0 5.7 5.7l1.5-1.5");
export const GoOnIcon = icon("M7 5l11 7-11 7z");
export const KeysIcon = icon("M3 7h18v10H3zM7 10.5h.01M12 10.5h.01M17 10.5h.01M8 14h8");
export const LeaveIcon = icon("M13 5H5v14h8M10 12h10M16.5 8.5 20 12l-3.5 3.5");
