// What Gemini CLI itself makes of a chat: node load_gemini.mjs CORE WORKSPACE ID
import path from 'node:path';
import { readdirSync } from 'node:fs';

const [core, workspace, id] = process.argv.slice(2);
const from = (file) => import(path.join(core, 'dist', 'src', file));
const { Storage } = await from('config/storage.js');
const { loadConversationRecord } = await from('services/chatRecordingService.js');
const { convertSessionToClientHistory } = await from('utils/sessionUtils.js');

const storage = new Storage(workspace);
await storage.initialize();
const chats = path.join(storage.getProjectTempDir(), 'chats');
for (const name of readdirSync(chats)) {
  const listed = await loadConversationRecord(path.join(chats, name), { metadataOnly: true });
  if (listed.sessionId !== id) continue;
  const record = await loadConversationRecord(path.join(chats, name));
  const history = convertSessionToClientHistory(record.messages);
  process.stdout.write(JSON.stringify({ name, listed, record, history }));
}
